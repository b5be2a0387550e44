echo ran >> ran.txt
sleep 1
