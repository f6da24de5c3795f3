-- Facts about the store itself, one row each: when it was last swept, when it was last backed up. They belong to no namespace.
CREATE TABLE metadata (
    key {text} PRIMARY KEY,
    value {bytes} NOT NULL,
    updated_at {int} NOT NULL
) {options};
