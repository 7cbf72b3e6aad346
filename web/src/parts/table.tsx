// Tables with a caption for screen readers, sorted by their heads, and navigated with the arrow keys. The keys
// focus the first link of a row. On a small screen each row is a card, in which each value has the head of its
// column before it; roles keep the meaning of a table there.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

export interface Column<T> {
  /** Name of the column in the address, and its head. */
  id: string;
  head: ComponentChildren;
  cell: (row: T) => ComponentChildren;
  /** Sort key of rows; a column without one cannot be sorted by. */
  by?: (row: T) => number | string;
  number?: boolean;
  class?: string;
}

interface Props<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  /** Name of the sort column, with `-` before it for descending. */
  sort?: string | undefined;
  onSort?: (sort: string) => void;
  /** CSS class of a row. */
  rowClass?: (row: T) => string;
}

export function Table<T>({ caption, columns, rows, keyOf, sort, onSort, rowClass }: Props<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  return (
    <div class="scroll">
      <table role="table">
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={(event) => walk(event, body.current)}>
          {rows.map((row) => (
            <tr role="row" key={keyOf(row)} data-key={keyOf(row)} class={rowClass?.(row)}>
              {columns.map((column) => (
                <td key={column.id} role="cell" data-column={column.id} data-label={labelOf(column)} class={classes(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head<T>({ column, sort, onSort }: { column: Column<T>; sort?: string | undefined; onSort?: ((sort: string) => void) | undefined }) {
  const { id, head, by } = column;
  const direction = sort === id ? "ascending" : sort === `-${id}` ? "descending" : "none";
  if (!by || !onSort) {
    return (
      <th scope="col" role="columnheader" class={classes(column)}>
        {head}
      </th>
    );
  }
  // The first click sorts numbers from the largest, names from the first.
  const first = column.number ? `-${id}` : id;
  const other = column.number ? id : `-${id}`;
  return (
    <th scope="col" role="columnheader" class={classes(column)} aria-sort={direction}>
      <button type="button" class="sort" onClick={() => onSort(sort === first ? other : first)}>
        {head}
        <span aria-hidden="true">{direction === "ascending" ? "▴" : direction === "descending" ? "▾" : ""}</span>
      </button>
    </th>
  );
}

const labelOf = <T,>({ id, head }: Column<T>) => (typeof head === "string" ? head : id);

function classes<T>(column: Column<T>): string {
  return [column.number ? "number" : "", column.class ?? ""].join(" ").trim();
}

/** A sorted copy of rows. Names decide between rows that are equal in the column. */
export function sorted<T>(rows: T[], columns: Column<T>[], sort: string | undefined, keyOf: (row: T) => string): T[] {
  const down = sort?.startsWith("-") ?? false;
  const by = columns.find((column) => column.id === sort?.replace("-", ""))?.by;
  if (!by) return rows;
  const compare = (a: T, b: T) => {
    const [one, other] = [by(a), by(b)];
    const order = one < other ? -1 : one > other ? 1 : 0;
    return (down ? -order : order) || (keyOf(a) < keyOf(b) ? -1 : 1);
  };
  return [...rows].sort(compare);
}

/** Moves the focus from row to row. */
function walk(event: KeyboardEvent, body: HTMLElement | null): void {
  if (!body || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = [...body.querySelectorAll<HTMLElement>(":scope > tr")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const last = rows.length - 1;
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
  if (at < 0 || next === undefined || next < 0 || next > last) return;
  const target = rows[next]?.querySelector<HTMLElement>("a, button");
  if (!target) return;
  event.preventDefault();
  target.focus();
}
