// JSON without loss: a number that JavaScript cannot hold keeps the digits it came with. An approver must see the cents.

/** A number by its digits. */
export class Exact {
  constructor(readonly digits: string) {}
}

interface Source {
  source?: string;
}

// Whole numbers above 2^53, roughly. Instants have sixteen digits, too, and begin with a 1.
const LONG = /(?<![\d.])(?:9\d{15}|[1-9]\d{16,})/;

export function parseExact(text: string): unknown {
  // Asking for each number is dear, and few texts have one that is long.
  if (!LONG.test(text)) return JSON.parse(text);
  const revive = (_key: string, value: unknown, source?: Source): unknown =>
    typeof value === "number" &&
    source?.source !== undefined &&
    String(value) !== source.source &&
    !sameNumber(value, source.source)
      ? new Exact(source.source)
      : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** Whether the digits say no more than the number does: 1.0 and 1e3 are fine, 2^53 + 1 is not. */
function sameNumber(value: number, digits: string): boolean {
  if (/^-?\d+$/.test(digits)) return BigInt(digits) === (Number.isFinite(value) ? BigInt(value) : null);
  return Number.isFinite(value) && digits.replace(/[^\d]/g, "").replace(/^0+/, "").length <= 17;
}

/** A value as JSON for people: two spaces, and every digit it had. */
export function pretty(value: unknown, indent = ""): string {
  if (value instanceof Exact) return value.digits;
  if (value === undefined) return "";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((item) => inner + pretty(item, inner)).join(",\n")}\n${indent}]`;
  }
  const fields = Object.entries(value);
  if (fields.length === 0) return "{}";
  return `{\n${fields.map(([name, item]) => `${inner}${JSON.stringify(name)}: ${pretty(item, inner)}`).join(",\n")}\n${indent}}`;
}

/** The same in one line. */
export function compact(value: unknown): string {
  if (value instanceof Exact) return value.digits;
  if (value === undefined) return "";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(compact).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}: ${compact(item)}`)
    .join(", ")}}`;
}
