"""Put the server and the skill into the clients that people use."""
