// The frame is painted first. Then come the modules, all at once, and the page begins.
const NEXT = ['./phone.js', '/client/client.js', '/client/overlay.js', '/client/reminderbook.js', '/client/store.js'];

function begin() {
  for (const href of NEXT) {
    const link = document.createElement('link');
    link.rel = 'modulepreload';
    link.href = new URL(href, import.meta.url);
    document.head.append(link);
  }
  import('./demo.js');
}

// A page in the background is never painted.
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));
