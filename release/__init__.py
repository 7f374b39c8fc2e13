"""How packages are made: wheels, source archive, bill of materials, container."""
