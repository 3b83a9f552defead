"""The admin API: route table, server, and the client every face uses."""
