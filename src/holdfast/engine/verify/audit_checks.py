"""I6 for the audit log: checks the hash chain of every namespace, from its first line to its recorded end."""

from __future__ import annotations

from holdfast.engine.verify.report import Violation
from holdfast.model.audit import SealedAct, find_breaks
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.store.executor import Transaction

PAGE = 500


async def check_audit_log(tx: Transaction) -> list[Violation]:
    violations: list[Violation] = []
    for namespace, _ in await tx.rows("list_namespaces"):
        subject = f"the audit log of {namespace}"
        head = EMPTY
        while rows := await tx.rows("list_acts", namespace=namespace, after=head.seq, limit=PAGE):
            lines = [SealedAct(*row) for row in rows]
            violations += [Violation("I6", subject, fault) for fault in find_breaks(namespace, head, lines)]
            head = Head(lines[-1].seq, lines[-1].hash)
        row = await tx.row("get_audit_head", namespace=namespace)
        end = EMPTY if row is None else Head(*row)
        if head != end:
            fault = f"it ends with line {head.seq}, and should with line {end.seq}"
            violations.append(Violation("I6", subject, fault))
    return violations
