"""The build of packages: wheels, source archive, bill of materials, container."""
