"""The web page: the inbox, approvals, runs. Parses requests, calls the client, renders templates; decides nothing."""
