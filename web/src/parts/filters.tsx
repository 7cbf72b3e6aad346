// Filter fields. Their values are in the address, so a link shows the same rows.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

/** Pause in typing after which the text is applied, in milliseconds. */
const REST = 250;

export function Filters({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <form class="filters" role="search" aria-label={label} onSubmit={(event) => event.preventDefault()}>
      {children}
    </form>
  );
}

interface FieldProps {
  name: string;
  label: string;
  value: string | undefined;
  hint?: string;
  list?: string;
  onChange: (value: string | undefined) => void;
}

/** A text field, applied when typing pauses or the field loses focus. */
export function Field({ name, label, value, hint, list, onChange, type = "text" }: FieldProps & { type?: "text" | "search" | "number" }) {
  const [typed, setTyped] = useState(value ?? "");
  useEffect(() => setTyped(value ?? ""), [value]);
  useEffect(() => {
    if (typed === (value ?? "")) return;
    const timer = setTimeout(() => onChange(typed || undefined), REST);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label>
      {label}
      <input
        type={type}
        name={name}
        value={typed}
        placeholder={hint}
        list={list}
        autoComplete="off"
        spellcheck={false}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </label>
  );
}

/** The field focused by the key `/`. */
export const Search = (props: FieldProps) => <Field {...props} type="search" hint={props.hint ?? "press /"} />;

/** A choice among values. The first value is the default. */
export function Choice({ name, label, value, of, onChange }: Omit<FieldProps, "hint" | "list"> & { of: [string, string][] }) {
  const first = of[0]?.[0] ?? "";
  return (
    <label>
      {label}
      <select name={name} value={value ?? first} title={of.find(([chosen]) => chosen === (value ?? first))?.[1]} onChange={(event) => onChange(event.currentTarget.value === first ? undefined : event.currentTarget.value)}>
        {of.map(([chosen, text]) => (
          <option key={chosen} value={chosen}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
