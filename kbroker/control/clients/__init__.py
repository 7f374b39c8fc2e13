"""Metrics of clients, from the reports of all network processes.

`service` keeps the reports, adds up connections by client software and answers the http process; `connected`
lists the clients of open connections, `quotas` computes the use of each quota, and `top_clients`
counts bytes by client id.

May be called by the trunk of control. Runs in control.
"""
