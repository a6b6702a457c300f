"""A stranger's table in, answers out: what the command line, the server and `vpunn.scale` share."""
