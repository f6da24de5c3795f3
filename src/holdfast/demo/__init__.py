"""`holdfast demo`: runs an agent, kills its worker three times, and checks the receivers' own logs.

Everything in it is real: `holdfast up` with its API and worker, a store on disk, an HTTP server and an SMTP server that
keep their own logs, kill -9. Only the model is a script, so that no network is needed.
"""
