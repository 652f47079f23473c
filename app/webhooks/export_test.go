// SPDX-License-Identifier: Apache-2.0

package webhooks

// WaitIdle waits until no try is in progress.
func (w *Worker) WaitIdle() { w.waitIdle() }

// Used returns the number of slots in use.
func (w *Worker) Used() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used.All
}
