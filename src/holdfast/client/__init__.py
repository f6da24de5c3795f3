"""One way to speak to Holdfast from outside a job: `protocol` says what, `embedded` does it over an open store, and
`remote` through a server in front of one."""
