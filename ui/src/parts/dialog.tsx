// Questions to the person in front of the page: a confirmation, a reason for the journal, a value.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { store, useStore } from "../core/store";
import { line, visible } from "../text/visible";

export interface Field {
  name: string;
  label: string;
  kind?: "line" | "text" | "json" | "number" | "choice";
  choices?: readonly (readonly [string, string])[];
  value?: string;
  required?: boolean;
  hint?: string;
  placeholder?: string;
}

export interface Question {
  title: string;
  body?: ComponentChildren;
  confirm: string;
  tone?: "danger" | "plain";
  fields?: readonly Field[];
  /** Whether the journal keeps a reason, and then whether it must be given. */
  why?: "required" | "optional";
  /** Such a reason, as an example. */
  whyLike?: string;
  /** Whether the journal keeps who said it. */
  signed?: boolean;
  /** What keeps both, if it is not the journal. */
  kept?: string;
}

export type Given = Record<string, string>;

interface Open {
  question: Question;
  settle(given: Given | null): void;
}

const open = store<Open | null>(null);
const NAME = "holdfast.name";

/** What was answered, or null if the person thought better of it. */
export function askPerson(question: Question): Promise<Given | null> {
  open.get()?.settle(null);
  return new Promise((settle) => {
    open.set({
      question,
      settle(given) {
        open.set(null);
        settle(given);
      },
    });
  });
}

function keptName(): string {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

function allFields(question: Question): Field[] {
  const fields = [...(question.fields ?? [])];
  const kept = question.kept ?? "journal";
  if (question.why) {
    fields.push({
      name: "why",
      label: "Reason",
      kind: "line",
      required: question.why === "required",
      hint: `Stored in the ${kept}.`,
      ...(question.whyLike ? { placeholder: question.whyLike } : {}),
    });
  }
  if (question.signed) {
    fields.push({
      name: "by",
      label: "Your name",
      kind: "line",
      required: true,
      value: keptName(),
      hint: `Stored in the ${kept}; an API key adds its own name.`,
    });
  }
  return fields;
}

export function Asker(): JSX.Element | null {
  const asked = useStore(open);
  return asked === null ? null : <Asking key={asked.question.title} asked={asked} />;
}

function Asking({ asked }: { asked: Open }): JSX.Element {
  const { question } = asked;
  const fields = allFields(question);
  const [given, setGiven] = useState<Given>(() =>
    Object.fromEntries(fields.map((field) => [field.name, field.value ?? field.choices?.[0]?.[0] ?? ""])),
  );
  const [wrong, setWrong] = useState("");
  const send = (): void => {
    for (const field of fields) {
      const value = (given[field.name] ?? "").trim();
      if (field.required && !value) return setWrong(`${field.label} is required.`);
      if (field.kind === "json" && value) {
        try {
          JSON.parse(value);
        } catch (error) {
          return setWrong(
            `${field.label} is not JSON: ${(error as Error).message}. JSON text needs quotes: "paid".`,
          );
        }
      }
    }
    if (question.signed && given.by) {
      try {
        localStorage.setItem(NAME, given.by);
      } catch {
        // asked again next time
      }
    }
    asked.settle(given);
  };
  return (
    <Modal title={question.title} close={() => asked.settle(null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        {question.body && (
          <div class="said">{typeof question.body === "string" ? visible(question.body) : question.body}</div>
        )}
        {fields.map((field, nth) => (
          <Input
            key={field.name}
            field={field}
            focus={nth === 0}
            value={given[field.name] ?? ""}
            set={(value) => setGiven((before) => ({ ...before, [field.name]: value }))}
          />
        ))}
        {wrong && (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <div class="row end">
          <button type="button" onClick={() => asked.settle(null)}>
            Back
          </button>
          <button type="submit" class={question.tone === "danger" ? "danger" : "primary"}>
            {question.confirm}
          </button>
        </div>
      </form>
    </Modal>
  );
}

/** So many lines as there are, within reason. */
const rowsFor = (text: string): number => Math.min(Math.max(text.split("\n").length, 4), 16);

function Input({
  field,
  value,
  set,
  focus,
}: {
  field: Field;
  value: string;
  set(value: string): void;
  focus: boolean;
}): JSX.Element {
  const id = `field-${field.name}`;
  const common = {
    id,
    value,
    autofocus: focus,
    "aria-describedby": field.hint ? `${id}-hint` : undefined,
    placeholder: field.placeholder,
  };
  const typed = (event: Event): void => set((event.currentTarget as HTMLInputElement).value);
  return (
    <div class="field">
      <label for={id}>
        {field.label}
        {field.required ? "" : <span class="dim"> (optional)</span>}
      </label>
      {field.kind === "choice" ? (
        <select id={id} value={value} onChange={typed}>
          {field.choices?.map(([key, words]) => (
            <option key={key} value={key}>
              {words}
            </option>
          ))}
        </select>
      ) : field.kind === "text" || field.kind === "json" ? (
        <textarea
          {...common}
          rows={field.kind === "json" ? rowsFor(value) : 4}
          class={field.kind === "json" ? "mono" : ""}
          spellcheck={false}
          onInput={typed}
        />
      ) : field.kind === "number" ? (
        <input {...common} type="number" step="any" autocomplete="off" onInput={typed} />
      ) : (
        <input {...common} type="text" autocomplete="off" onInput={typed} />
      )}
      {field.hint && (
        <p class="dim small" id={`${id}-hint`}>
          {field.hint}
        </p>
      )}
    </div>
  );
}

/** A dialog of the browser: it keeps the focus, Escape closes it, and the focus goes back where it was. */
export function Modal({
  title,
  close,
  children,
  wide = false,
}: {
  title: string;
  close(): void;
  children: ComponentChildren;
  wide?: boolean;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    const first = element?.querySelector<HTMLElement>("[autofocus]");
    first?.focus();
    if (first instanceof HTMLTextAreaElement) {
      first.setSelectionRange(0, 0); // long text is read from its beginning
      first.scrollTop = 0;
    }
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "wide" : ""}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="inside">
        <header>
          <h2 id="dialog-title">{line(title, 300)}</h2>
          <button type="button" class="icon" aria-label="Close" onClick={close}>
            ×
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
