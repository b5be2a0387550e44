"""What every activity has around it: heartbeats, spans, stand-ins and failures."""
