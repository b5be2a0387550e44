echo sun >> note.txt
sleep 1
