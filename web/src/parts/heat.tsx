// Heat map with one square per node. The colour is stronger the fuller the node is: in its scarcest resource, or
// in one that the view selects.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { byWeight, short, title } from "../format/amounts";
import type { Node } from "../rest/types";
import { toNode, useOpen } from "../routes";
import { dark } from "./theme";

/** Utilization of a node's scarcest resource, in percent. */
export const fullest = (node: Node) => Math.max(0, ...Object.values(node.utilized ?? {}));

// Squared, because on a busy cluster the difference between full and nearly full matters.
const heatOf = (percent: number) => (percent > 0 ? 0.2 + 0.8 * (Math.min(percent, 100) / 100) ** 2 : 0.05);

interface Layout {
  size: number;
  columns: number;
}

function layout(width: number, nodes: number): Layout {
  const size = Math.max(3, Math.min(30, Math.floor(Math.sqrt((width * 200) / Math.max(nodes, 1)))));
  return { size, columns: Math.max(1, Math.floor(width / size)) };
}

interface Props {
  nodes: Node[];
  /** Number of nodes, of which `nodes` may be the first ones. */
  total: number;
  /** Fullness of a node in percent. */
  of?: (node: Node) => number;
}

export function Heat({ nodes, total, of = fullest }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  const open = useOpen();
  const id = useId();
  const isDark = dark.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, width, nodes, of, at);
  }, [nodes, width, at, isDark, of]);
  const { size, columns } = layout(width, nodes.length);
  const under = (event: MouseEvent) => {
    const column = Math.floor(event.offsetX / size);
    return column < columns ? Math.floor(event.offsetY / size) * columns + column : -1;
  };
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const node = nodes[at];
    if (event.key === "Enter" && node) open(toNode(node.nodeID));
    if (step === undefined || !nodes.length) return;
    event.preventDefault();
    setAt((before) => Math.min(Math.max(before < 0 ? 0 : before + step, 0), nodes.length - 1));
  };
  const full = nodes.filter((node) => of(node) >= 90).length;
  const idle = nodes.filter((node) => !of(node)).length;
  const closed = nodes.filter((node) => !node.schedulable).length;
  const summary = [`${short(full)} at 90 % or more`, `${short(idle)} idle`, closed ? `${short(closed)} closed` : ""]
    .filter(Boolean)
    .join(", ");
  const node = nodes[at];
  return (
    <>
      <canvas
        ref={canvas}
        class="heat"
        tabIndex={0}
        role="img"
        aria-label={`${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}: ${summary}. Arrow keys walk from node to node, Enter opens one.`}
        aria-describedby={id}
        onPointerMove={(event) => setAt(under(event))}
        onPointerLeave={() => setAt(-1)}
        onClick={(event) => {
          const clicked = nodes[under(event)];
          if (clicked) open(toNode(clicked.nodeID));
        }}
        onKeyDown={walk}
        onBlur={() => setAt(-1)}
      />
      <p class="under" id={id} role="status">
        {node ? told(node) : nodes.length < total ? `The first ${short(nodes.length)} of ${short(total)}: ${summary}.` : `${summary}.`}
      </p>
    </>
  );
}

function told(node: Node): string {
  const uses = Object.entries(node.utilized ?? {}).sort(([a], [b]) => byWeight(a, b));
  const used = uses.map(([name, percent]) => `${title(name)} ${percent} %`).join(", ");
  return `${node.nodeID}${node.schedulable ? "" : " (takes no work)"}: ${node.allocationCount ?? 0} allocations; ${used}`;
}

function paint(canvas: HTMLCanvasElement, width: number, nodes: Node[], of: (node: Node) => number, chosen: number): void {
  const { size, columns } = layout(width, nodes.length);
  const scale = devicePixelRatio || 1;
  const height = Math.ceil(nodes.length / columns) * size || 1;
  const gap = size > 6 ? 2 : 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const brush = canvas.getContext("2d");
  if (!brush) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const numbers = (name: string) => colour(name).split(" ").map(Number);
  const [cold, hot] = [numbers("--cold"), numbers("--hot")];
  brush.scale(scale, scale);
  nodes.forEach((node, at) => {
    const [x, y] = [(at % columns) * size, Math.floor(at / columns) * size];
    const heat = heatOf(of(node));
    const mixed = cold.map((from, part) => Math.round(from + ((hot[part] ?? from) - from) * heat));
    brush.fillStyle = `rgb(${mixed.join(" ")})`;
    brush.beginPath();
    brush.roundRect(x, y, size - gap, size - gap, Math.min(4, size / 6));
    brush.fill();
    const frame = at === chosen ? "--ink" : node.schedulable ? (node.isReserved ? "--quiet" : "") : "--wait";
    if (!frame) return;
    brush.strokeStyle = colour(frame);
    brush.lineWidth = Math.min(2, size / 4);
    brush.strokeRect(x + 1, y + 1, size - gap - 2, size - gap - 2);
  });
}
