// Changes of a queue configuration as text. The service writes a configuration in block form: a mapping has one key
// per line, and the items of a list begin at the column of their key.

/** Lines of a mapping; its keys are indented by `indent`. */
interface Block {
  from: number;
  /** The line after the last one. */
  to: number;
  indent: number;
}

/** A change at a queue: keys from the queue on, and the lines of the new value, which are not indented. */
export interface Edit {
  queue: string;
  keys: string[];
  lines: string[];
  /** The user or group of a limit in which the keys are. */
  owner?: { kind: "user" | "group"; name: string };
}

interface Line {
  /** Column of the key, behind the dashes of its list. */
  indent: number;
  isItem: boolean;
  text: string;
}

function parsed(line: string): Line {
  const [, blank = "", dash = "", text = ""] = /^(\s*)(- )?(.*)$/.exec(line) ?? [];
  return { indent: blank.length + dash.length, isItem: dash !== "", text };
}

/** The text without quotes. */
const plain = (text: string) => text.trim().replace(/^(["'])(.*)\1$/, "$2");

/** Lines of a key and its value; `undefined` if the mapping has no such key. */
function entry(lines: string[], block: Block, key: string): { from: number; to: number } | undefined {
  for (let at = block.from; at < block.to; at++) {
    const line = parsed(lines[at] ?? "");
    if (line.indent !== block.indent || !line.text.startsWith(`${key}:`)) continue;
    let to = at + 1;
    while (to < block.to && parsed(lines[to] ?? "").indent > block.indent) to++;
    return { from: at, to };
  }
  return undefined;
}

const value = (lines: string[], block: Block, key: string): string | undefined => {
  const found = entry(lines, block, key);
  return found && plain(parsed(lines[found.from] ?? "").text.slice(key.length + 1));
};

/** Items of the list below a key. */
function items(lines: string[], block: Block, key: string): Block[] {
  const list = entry(lines, block, key);
  if (!list) return [];
  const indent = block.indent + 2;
  const starts: number[] = [];
  for (let at = list.from + 1; at < list.to; at++) {
    const line = parsed(lines[at] ?? "");
    if (line.isItem && line.indent === indent) starts.push(at);
  }
  return starts.map((from, nth) => ({ from, to: starts[nth + 1] ?? list.to, indent }));
}

/** The mapping of a queue; `undefined` if the configuration does not name it. */
function queueAt(lines: string[], partition: string, path: string): Block | undefined {
  const whole = { from: 0, to: lines.length, indent: 0 };
  let block = items(lines, whole, "partitions").find((one) => value(lines, one, "name") === partition);
  for (const name of path.split(".")) block = block && items(lines, block, "queues").find((one) => value(lines, one, "name")?.toLowerCase() === name);
  return block;
}

/** The limit of one user or group alone, with no other name. */
function limitOf(lines: string[], queue: Block, { kind, name }: NonNullable<Edit["owner"]>): Block | undefined {
  return items(lines, queue, "limits").find((limit) => {
    const names = entry(lines, limit, `${kind}s`);
    if (!names || entry(lines, limit, kind === "user" ? "groups" : "users")) return false;
    const all = lines.slice(names.from + 1, names.to).map((line) => plain(parsed(line).text));
    return all.length === 1 && all[0] === name;
  });
}

const indented = (lines: string[], by: number) => lines.map((line) => " ".repeat(by) + line);

/** Sets a value below a mapping, and makes the mappings on the way that are not there. */
function set(lines: string[], block: Block, [key = "", ...rest]: string[], wanted: string[]): string[] {
  const found = entry(lines, block, key);
  const isItem = found && parsed(lines[found.from] ?? "").isItem;
  if (found && rest.length) return set(lines, { from: found.from + 1, to: found.to, indent: block.indent + 2 }, rest, wanted);
  const nested = rest.reduceRight((inner, name) => [`${name}:`, ...indented(inner, 2)], wanted);
  const isScalar = !rest.length && wanted.length === 1 && !wanted[0]?.includes(": ");
  const added = indented(isScalar ? [`${key}: ${wanted[0]}`] : [`${key}:`, ...indented(nested, 2)], block.indent);
  if (isItem) added[0] = `${" ".repeat(block.indent - 2)}- ${added[0]?.trimStart()}`;
  return [...lines.slice(0, found?.from ?? block.to), ...added, ...lines.slice(found?.to ?? block.to)];
}

/** The configuration without what is no partition: its checksum, and settings of the resource manager. */
export function partitionsOf(text: string): string | undefined {
  const lines = text.trimEnd().split("\n");
  const partitions = entry(lines, { from: 0, to: lines.length, indent: 0 }, "partitions");
  if (!partitions) return undefined;
  // Items of the top list begin at the first column.
  const end = lines.findIndex((line, at) => at > partitions.from && /^[^\s-]/.test(line));
  return lines.slice(partitions.from, end < 0 ? undefined : end).join("\n");
}

/** The configuration with a change, without what is no partition; `undefined` if it does not name the queue. */
export function edited(text: string, partition: string, edit: Edit): { before: string; after: string } | undefined {
  const before = partitionsOf(text);
  if (before === undefined) return undefined;
  const lines = before.split("\n");
  const queue = queueAt(lines, partition, edit.queue);
  if (!queue) return undefined;
  const limit = edit.owner && limitOf(lines, queue, edit.owner);
  if (limit || !edit.owner) return { before, after: set(lines, limit ?? queue, edit.keys, edit.lines).join("\n") };
  // A limit of its own goes before those of everybody.
  const { kind, name } = edit.owner;
  const list = entry(lines, queue, "limits");
  const item = indented([`- limit: of ${name}`, `  ${kind}s:`, `  - ${JSON.stringify(name)}`], queue.indent);
  const at = list ? list.from + 1 : queue.to;
  const head = list ? [] : indented(["limits:"], queue.indent);
  const made = [...lines.slice(0, at), ...head, ...item, ...lines.slice(at)];
  const from = at + head.length;
  return { before, after: set(made, { from, to: from + item.length, indent: queue.indent + 2 }, edit.keys, edit.lines).join("\n") };
}

/** Lines that differ between two texts with one change: those taken out, and those put in. */
export function difference(before: string, after: string): { out: string[]; in: string[] } {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return { out: a.slice(head, a.length - tail), in: b.slice(head, b.length - tail) };
}
