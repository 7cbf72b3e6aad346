// Pagination: a hundred rows at a time, and a link to the part of the list that was not read yet.
import { to, useQuery } from "../routes";

export const ROWS = 100;

/** The page of rows selected by the address, and links to the other pages. */
export function useRows<T>(rows: T[]): { shown: T[]; pager: preact.JSX.Element | null } {
  const [query, change] = useQuery();
  const pages = Math.max(1, Math.ceil(rows.length / ROWS));
  const page = Math.min(Math.max(1, Number(query.page) || 1), pages);
  const shown = rows.slice((page - 1) * ROWS, page * ROWS);
  const go = (next: number) => change({ page: next > 1 ? String(next) : undefined });
  const pager =
    pages < 2 ? null : (
      <nav class="pager" aria-label="Pages">
        <button type="button" disabled={page <= 1} onClick={() => go(page - 1)}>
          Previous
        </button>
        <span>
          {(page - 1) * ROWS + 1}–{Math.min(page * ROWS, rows.length)} of {rows.length}
        </span>
        <button type="button" disabled={page >= pages} onClick={() => go(page + 1)}>
          Next
        </button>
      </nav>
    );
  return { shown, pager };
}

/** Link to the next part of a list that was not read to its end, and back to its beginning. */
export function Further({ view, next, count }: { view: string; next: string | null; count: number }) {
  const [query] = useQuery();
  if (next === null && !query.after) return null;
  const address = (after: string | undefined) => to(view, { ...query, after, page: undefined });
  return (
    <p class="further">
      {query.after && <a href={address(undefined)}>From the beginning</a>}
      {next !== null && <a href={address(next)}>The next {count}</a>}
    </p>
  );
}
