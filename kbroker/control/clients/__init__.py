"""Metrics of clients, from the reports of all network processes.

`service` keeps the reports and answers the http process; `software` adds up connections by client software,
`quotas` computes the use of each quota, and `top_clients` counts bytes by client id.
"""
