// Placeholders for content: loading, empty, or the reason why it cannot be shown.
import type { ComponentChildren } from "preact";
import type { Polled } from "../rest/poll";

/** Name of a state, in the colour of its meaning. */
export function Tag({ of, title }: { of: string | undefined; title?: string }) {
  if (!of) return null;
  return (
    <span class={`tag ${of.replace(/\W.*/, "")}`} title={title}>
      {of}
    </span>
  );
}

/** A section with a heading and a line of description. The only section of a view has the heading of the view. */
export function Section(props: {
  title?: ComponentChildren;
  label?: string;
  id?: string;
  note?: ComponentChildren;
  side?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  const { title, label, id, note, side, children } = props;
  return (
    <section class={props.class ?? ""} id={id} aria-label={label ?? (typeof title === "string" ? title : undefined)}>
      {title && (
        <div class="head">
          <h2>{title}</h2>
          {side}
        </div>
      )}
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

/** Explains why a document is not shown. */
export function Trouble({ of, missing }: { of: Polled<unknown>; missing?: string | undefined }) {
  const { error, data } = of;
  if (!error) return data === undefined ? <p class="none reading">Reading …</p> : null;
  if (error.status === 401) return null;
  const why =
    error.status === 404 && missing
      ? missing
      : error.status === 403
        ? "The token that was given may not read this: it needs a rule with more rights."
        : error.status === 0
          ? "The service does not answer. What is shown is from before."
          : error.message;
  return (
    <p class={error.status === 404 ? "none" : "none trouble"} role="status">
      {why}
    </p>
  );
}

/** Pairs of name and value. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
