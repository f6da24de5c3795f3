"""`holdfast demo`: an agent at work, a worker killed three times, and what the outside world says about it.

Everything in it is real: `holdfast up` with its API and worker, a store on disk, an HTTP server and an SMTP server that
keep their own logs, kill -9. Only the model is a script, so that no network is needed.
"""
