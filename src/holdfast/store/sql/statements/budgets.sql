-- Budgets: one account for a whole tree of jobs, written by the appends of its jobs.

-- name: create_budget
-- Open the account of the job that declares the budget, with nothing spent.
INSERT INTO budgets (budget_id, namespace, depth, created_at, limits, usd_micros, tokens, tool_calls)
VALUES (:budget_id, :namespace, :depth, :created_at, :limits, 0, 0, 0);

-- name: find_budgets
-- These accounts as they are now.
SELECT budget_id, namespace, depth, created_at, limits, usd_micros, tokens, tool_calls
FROM budgets WHERE budget_id {any:budget_ids} ORDER BY budget_id;

-- name: charge_budget
-- Charge the account.
UPDATE budgets
SET usd_micros = usd_micros + :usd_micros, tokens = tokens + :tokens, tool_calls = tool_calls + :tool_calls
WHERE budget_id = :budget_id;

-- name: lock_budget
-- The limits of the account, locked until the transaction ends.
SELECT limits FROM budgets WHERE budget_id = :budget_id {for_update};

-- name: set_budget_limits
-- Set the limits of the account.
UPDATE budgets SET limits = :limits WHERE budget_id = :budget_id;

-- name: remove_budget
-- Remove the account, with the job that declared it.
DELETE FROM budgets WHERE budget_id = :budget_id;

-- name: list_all_budgets
-- Every account, for the check against the journals.
SELECT budget_id, namespace, depth, created_at, limits, usd_micros, tokens, tool_calls
FROM budgets ORDER BY budget_id;
