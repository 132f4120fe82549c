// The first paint, before all else: modules that are loaded at the same time would share the processor with it. After it,
// all at once: those named here lead to the others.
function start() {
  for (const href of ['/demo/phone.js', '/client/client.js', '/client/overlay.js', '/client/reminderbook.js',
    '/client/store.js']) {
    document.head.append(Object.assign(document.createElement('link'), { rel: 'modulepreload', href }));
  }
  import('./demo.js');
}

// A tab in the background is not painted, and not every browser tells of paints.
if (document.hidden || !PerformanceObserver.supportedEntryTypes?.includes('paint')) start();
else {
  new PerformanceObserver((_, observer) => {
    observer.disconnect();
    start();
  }).observe({ type: 'paint', buffered: true });
}
