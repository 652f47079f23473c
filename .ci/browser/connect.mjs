// SPDX-License-Identifier: Apache-2.0
// Checks the pages that connect a tenant. It uses them only by keyboard.
import { narrow, open, wide } from './look.mjs';

export async function connectPages(browser, task, look, findings) {
  const walks = [
    // bypassCSP allows axe to run although the page's policy forbids scripts.
    { name: 'connect', decision: 'connect', options: { viewport: narrow, bypassCSP: true }, scripted: true },
    { name: 'plain', decision: 'connect', options: { viewport: narrow, javaScriptEnabled: false }, scripted: false },
    { name: 'cancel', decision: 'cancel', options: { viewport: narrow, bypassCSP: true, colorScheme: 'dark' }, scripted: true },
    { name: 'wide', decision: 'cancel', options: { viewport: wide, bypassCSP: true }, scripted: true },
  ];
  for (const [i, walk] of walks.entries()) {
    const page = await open(browser, walk.options);
    await walkThrough(page, task.walks[i], walk, look, findings);
    await refusals(page, task, walk, look);
    await page.context().close();
  }
}

async function walkThrough(page, { link, username, back }, walk, look, findings) {
  await page.goto(link);
  await page.fill('[name=username]', username);
  await pressButton(page, findings, 'decision', 'accept');
  await page.waitForURL(/authorize/);
  await page.fill('[name=username]', username);
  await page.focus('[name=username]');
  await page.keyboard.press('Enter');
  await page.waitForURL(/connect\/microsoft365\/signin/);
  await checkPage(page, `${walk.name}-confirm`, walk, look, findings);
  await pressButton(page, findings, 'decision', walk.decision);
  await page.waitForURL(/connect\/microsoft365\/confirm/);
  await checkPage(page, `${walk.name}-${walk.decision === 'connect' ? 'connected' : 'cancelled'}`, walk, look, findings);
  if (back) await followBackLink(page, back, findings);
}

// followBackLink follows the link of the last page to the caller's page by keyboard. It
// answers for that page itself, because the host of the page does not exist.
async function followBackLink(page, { url, parameters }, findings) {
  let referrer = null;
  await page.route(`${url}*`, (route) => {
    referrer = route.request().headers().referer ?? '';
    return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>Back</title>' });
  });
  await pressControl(page, findings, (at) => at.href?.startsWith(url), `the link to ${url}`);
  await page.waitForURL(`${url}*`);
  const got = [...new URL(page.url()).searchParams].sort();
  const want = Object.entries(parameters).sort();
  if (JSON.stringify(got) !== JSON.stringify(want)) findings.push(`leads back with ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  if (referrer !== '') findings.push(`leads back with the referrer ${referrer}`);
}

// checkPage checks a page of the service. The page must have no script.
async function checkPage(page, name, walk, look, findings) {
  if (await page.evaluate(() => document.scripts.length) > 0) findings.push(`${name}: it has scripts`);
  if (!(await page.textContent('h1'))) findings.push(`${name}: it has no heading`);
  await look(page, name, walk.scripted);
}

async function refusals(page, task, walk, look) {
  for (const [name, path] of [
    ['refused-link', '/connect/microsoft365/callback?state=forged'],
    ['refused-page', '/connect/microsoft365/nothing'],
  ]) {
    await page.goto(task.api + path);
    await look(page, `${walk.name}-${name}`, walk.scripted);
  }
}

// pressButton presses the button of a form with this name and value.
function pressButton(page, findings, name, value) {
  return pressControl(page, findings, (at) => at.name === name && at.value === value, `${name}=${value}`);
}

// pressControl moves the focus to a control with the Tab key, checks that the focus is
// visible, and presses Enter.
async function pressControl(page, findings, wanted, what) {
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      return { name: e?.getAttribute('name'), value: e?.getAttribute('value'), href: e?.href, outline: e && getComputedStyle(e).outlineStyle };
    });
    if (wanted(at)) {
      if (at.outline === 'none') findings.push(`${page.url()}: the focus on ${what} is not visible`);
      await Promise.all([page.waitForEvent('framenavigated'), page.keyboard.press('Enter')]);
      return;
    }
  }
  throw new Error(`the keyboard does not reach ${what} on ${page.url()}`);
}
