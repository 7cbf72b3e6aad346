// The filter of all views: its button, and its dialog.
import { useRef } from "preact/hooks";
import { FIELDS, type Mine, mineText } from "../format/mine";
import { isFiltered, keepMine, mine } from "../rest/mine";
import { useQuery } from "../routes";

const LABELS = { user: "User", group: "Group", queue: "Queue, with those below", label: "Label of applications, NAME=VALUE" };

export function MineFilter() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [, change] = useQuery();
  const shown = mine.value;
  const set = (wanted: Mine) => {
    const text = mineText(wanted);
    keepMine(text);
    change({ mine: text || undefined, page: undefined, after: undefined });
    dialog.current?.close();
  };
  const text = Object.values(shown).join(", ");
  return (
    <>
      <button type="button" id="mine" aria-pressed={isFiltered.value} title={text || "Show only what is of one user, group or queue, or has a label"} onClick={() => dialog.current?.showModal()}>
        {text ? `Only ${text}` : "Everything"}
      </button>
      <dialog ref={dialog} aria-labelledby="mine-title">
        <h2 id="mine-title">Show only what is of</h2>
        <form
          class="fields"
          onSubmit={(event) => {
            event.preventDefault();
            const given = new FormData(event.currentTarget);
            const field = (name: string) => String(given.get(`mine-${name}`) ?? "").trim();
            set(Object.fromEntries(FIELDS.map((name) => [name, field(name)])));
          }}
        >
          {FIELDS.map((name) => (
            <label key={`${name} ${shown[name] ?? ""}`}>
              {LABELS[name]}
              <input name={`mine-${name}`} defaultValue={shown[name] ?? ""} autoComplete="off" spellcheck={false} pattern="\S*" />
            </label>
          ))}
          <p class="note">All views keep to it. It is part of the address, and this browser keeps it.</p>
          <div class="buttons">
            <button type="submit">Show only these</button>
            <button type="button" onClick={() => set({})}>Show everything</button>
          </div>
        </form>
      </dialog>
    </>
  );
}
