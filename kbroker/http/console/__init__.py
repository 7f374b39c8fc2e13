"""The console: a JSON API and the page that uses it, served by the http process (docs/adr/0022).

`listener`, `broker_link`, `caller` and `scram_client` reach the broker through one of its own listeners; `live` reads
shared memory; `views` answer questions, `changes` change things; `routes` is the table of both,
from which dispatch and the OpenAPI document come; `gate` and `sessions` decide which requests are
allowed;
`service` answers one HTTP request.
"""
