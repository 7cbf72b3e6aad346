// Keyboard shortcuts of the page. A key typed into a field is text.
import { useLocation } from "preact-iso";
import { useEffect, useRef } from "preact/hooks";
import { to } from "../routes";
import { listed } from "../views";

const OTHERS: [string, string][] = [
  ["Ctrl-K", "go to anything by a part of its name"],
  ["/", "search this view, or go to anything"],
  ["Esc", "leave a field"],
  ["↑ ↓ or k j", "walk through the rows of a table, from its first one"],
  ["Home End", "first and last row"],
  ["Enter", "open what is chosen"],
  ["?", "show these keys"],
];

/** Rows of tables and lists; each has a link or another control. */
const ROWS = "main tbody > tr, main .decisions > li";

/** Moves the focus to another row, or to the first one. Returns whether the key does that. */
function walk(key: string): boolean {
  const within = document.activeElement?.closest<HTMLElement>(ROWS);
  const rows = [...(within?.parentElement?.children ?? document.querySelectorAll(ROWS))];
  const at = within ? rows.indexOf(within) : -1;
  const last = rows.length - 1;
  const next = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: last }[key];
  const isStart = at < 0 && (key === "ArrowDown" || key === "j");
  if (next === undefined || (at < 0 && !isStart)) return false;
  const target = rows[next]?.querySelector<HTMLElement>("a, button, summary");
  target?.focus();
  return target !== undefined && target !== null;
}

export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  const { route } = useLocation();
  useEffect(() => {
    let going = false;
    const jump = () => dispatchEvent(new CustomEvent("page:jump"));
    const show = () => dialog.current?.open || dialog.current?.showModal();
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        jump();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const field = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
      if (field) {
        if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
        return;
      }
      if (walk(event.key)) {
        event.preventDefault();
        return;
      }
      const view = going ? listed().find((known) => known.key === event.key) : undefined;
      going = event.key === "g";
      if (view) {
        route(to(view.id));
      } else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("main input[type=search]");
        event.preventDefault();
        if (!search) return jump();
        search.focus();
        search.select();
      } else if (event.key === "?") {
        show();
      }
    };
    addEventListener("keydown", pressed);
    addEventListener("page:keys", show);
    return () => {
      removeEventListener("keydown", pressed);
      removeEventListener("page:keys", show);
    };
  }, [route]);
  const views = listed().filter((view) => view.key).map((view): [string, string] => [`g ${view.key}`, view.name ?? ""]);
  return (
    <dialog ref={dialog} id="keys" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl>
        {[...OTHERS, ...views].map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
