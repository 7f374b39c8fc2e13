"""What /metrics shows of clients, from the reports of all network processes.

`service` keeps the reports and answers the http process; `software` adds up connections by client software,
`quotas` knows what is used of each quota, and `top_clients` counts bytes by client id.
"""
