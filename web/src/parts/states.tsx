// What stands in the place of something: that it is being read, that there is nothing, or why it is not shown.
import type { ComponentChildren } from "preact";
import type { Polled } from "../rest/poll";

/** The name of a state, coloured by what it means. */
export function Tag({ of, title }: { of: string | undefined; title?: string }) {
  if (!of) return null;
  return (
    <span class={`tag ${of.replace(/\W.*/, "")}`} title={title}>
      {of}
    </span>
  );
}

/** A section with a heading and one line that says what it is. Where a view has one section, the heading of the view is that of the section. */
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

/** Why a document is not shown, in words. */
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

/** Pairs of a name and what it is. */
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
