// A view beside a list. On a wide screen, links of rows open here, so that the list stays.
import { useEffect, useState } from "preact/hooks";
import { BESIDE, besideOf } from "../format/beside";
import { Inner, to, useOpen, useQuery } from "../routes";
import { VIEWS } from "../views";
import { isWide } from "./screen";

/** Handler of clicks that opens links of rows, or all links within the panel, beside the list. */
export function useBeside(links: string): (event: MouseEvent) => void {
  const open = useOpen();
  return (event) => {
    const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>(links) : null;
    if (!link || !besideOf(link.href) || !isPlain || !isWide.value) return;
    event.preventDefault();
    // The router follows clicks that reach the window.
    event.stopPropagation();
    open(link.href);
  };
}

export function Panel() {
  const [{ open = "" }, change] = useQuery();
  const [id = "", subject = ""] = [open.slice(0, open.indexOf(":")), open.slice(open.indexOf(":") + 1)];
  const parameter = BESIDE[id];
  const isOpen = parameter !== undefined && subject !== "";
  const beside = useBeside("a:not(.whole)");
  useEffect(() => {
    if (!isOpen) return;
    const pressed = ({ key, target }: KeyboardEvent) => {
      const isElsewhere = target instanceof Element && target.matches("input, select, textarea, dialog *");
      if (key === "Escape" && !isElsewhere && !document.querySelector("dialog[open]")) change({ open: undefined });
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [isOpen, change]);
  const view = VIEWS.find((known) => known.id === id);
  if (!isOpen || !view) return null;
  return (
    <aside id="panel" aria-label={`${view.title} ${subject}`} onClick={beside}>
      <div class="head">
        <h2>
          <small>{view.title}</small> {subject}
        </h2>
        <span class="side">
          <a class="whole" href={to(id, { [parameter]: subject })}>Whole view</a>
          <button type="button" aria-label="Close" title="Close (Esc)" onClick={() => change({ open: undefined })}>
            ✕
          </button>
        </span>
      </div>
      <Within key={open} query={{ [parameter]: subject }} show={view.show} />
    </aside>
  );
}

/** A view with a query of its own. */
function Within({ query, show: Shown }: { query: Record<string, string>; show: preact.ComponentType }) {
  const [own, setOwn] = useState<Record<string, string | undefined>>(query);
  const known = Object.fromEntries(Object.entries(own).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return (
    <Inner.Provider value={[known, (changed) => setOwn((before) => ({ ...before, ...changed }))]}>
      <Shown />
    </Inner.Provider>
  );
}
