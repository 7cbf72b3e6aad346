// Tables with a caption for screen readers, sorted by their heads. Where there is little room each row is a card, in which each value has the head of its
// column before it; roles keep the meaning of a table there.
import type { ComponentChildren } from "preact";
import { useCards } from "./cards";
import { isNarrow } from "./screen";

/** Number of columns from which sentences of a row are below it on every screen. */
const MANY = 8;

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
  const texts = columns.filter((column) => column.class === "text").length;
  // A sentence beside many columns would be a tall, narrow cell, or off the screen.
  const { isCards, box } = useCards(columns.length);
  const isBelow = texts > 0 && (isNarrow.value || columns.length >= MANY);
  const layout = isCards ? { class: "cards" } : isBelow ? { class: "below-text" } : {};
  const counts = { "--columns": columns.length - texts, "--bars": columns.filter((column) => column.class === "bars").length };
  return (
    <div class="scroll" ref={box}>
      <table role="table" {...layout} style={counts}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
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

/** Sort key of a name: numbers in it are ordered as such, `task-2` before `task-10`. */
export const natural = (name: string) => name.replace(/\d+/g, (digits) => digits.padStart(15, "0"));

/** A sorted copy of rows. Names decide between rows that are equal in the column. */
export function sorted<T>(rows: T[], columns: Column<T>[], sort: string | undefined, keyOf: (row: T) => string): T[] {
  const down = sort?.startsWith("-") ? -1 : 1;
  const by = columns.find((column) => column.id === sort?.replace("-", ""))?.by;
  if (!by) return rows;
  // Keys are made once, since there may be ten thousand rows.
  const keyed = rows.map((row) => {
    const value = by(row);
    return { row, value: typeof value === "string" ? natural(value) : value, key: natural(keyOf(row)) };
  });
  keyed.sort((a, b) => (a.value < b.value ? -down : a.value > b.value ? down : a.key < b.key ? -1 : 1));
  return keyed.map(({ row }) => row);
}
