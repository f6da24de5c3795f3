// A question of a job: the JSON schema of its answer decides what one fills in.

import type { Field } from "../parts/dialog";

type Schema = Record<string, unknown>;

const schemaOf = (given: unknown): Schema => (typeof given === "object" && given !== null ? (given as Schema) : {});

export function questionField(evidence: unknown): Field {
  const schema = schemaOf(evidence);
  const common = { name: "answer", label: "Your answer", required: true } as const;
  if (Array.isArray(schema.enum))
    return {
      ...common,
      kind: "choice",
      choices: schema.enum.map((one) => [JSON.stringify(one), String(one)] as const),
    };
  if (schema.type === "boolean")
    return {
      ...common,
      kind: "choice",
      choices: [
        ["true", "yes"],
        ["false", "no"],
      ],
    };
  if (schema.type === "integer" || schema.type === "number") return { ...common, kind: "number" };
  if (schema.type === "string" || schema.type === undefined) return { ...common, kind: "text" };
  return { ...common, kind: "json", hint: `JSON with this schema: ${JSON.stringify(schema)}`, value: sketch(schema) };
}

/** A first draft of an object with the fields that the schema names. */
function sketch(schema: Schema): string {
  const fields = schemaOf(schema.properties);
  if (schema.type !== "object") return "";
  const draft = Object.fromEntries(Object.entries(fields).map(([name, kind]) => [name, empty(schemaOf(kind))]));
  return JSON.stringify(draft, null, 2);
}

function empty(schema: Schema): unknown {
  switch (schema.type) {
    case "boolean":
      return false;
    case "integer":
    case "number":
      return 0;
    case "array":
      return [];
    case "object":
      return {};
    default:
      return "";
  }
}

/** What was filled in, as the value it means. Text that needs no schema is text. */
export function readAnswer(field: Field, typed: string, evidence: unknown): unknown {
  if (field.kind === "choice" || field.kind === "json") return JSON.parse(typed);
  if (field.kind === "number") return Number(typed);
  return schemaOf(evidence).type === undefined && /^\s*[{[]/.test(typed) ? parsed(typed) : typed;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
