// Views that open beside a list, as the address has them.

/** Views that open beside a list, with the parameter that names their object. */
export const BESIDE: Record<string, string> = { application: "id", node: "id", queue: "path" };

/** Text of a view in the address, `node:n1`, for the address of one that opens beside a list. */
export function besideOf(href: string): string | undefined {
  const { pathname, searchParams } = new URL(href, "http://page");
  const id = pathname.replace(/^\/ui\//, "");
  const subject = searchParams.get(BESIDE[id] ?? "");
  return subject ? `${id}:${subject}` : undefined;
}
