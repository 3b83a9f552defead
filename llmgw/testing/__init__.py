"""What tests and users share: the simulated engine, fakes with real sockets, the toxic proxy."""
