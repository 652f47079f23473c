// SPDX-License-Identifier: Apache-2.0

package webhooks

// StartClaims starts the claims, without the fan-out.
func (w *Worker) StartClaims() { w.start(w.repeatClaims) }

// WaitIdle waits until no slot is in use. No try is then in progress.
func (w *Worker) WaitIdle() { w.slots.waitIdle() }

// Due returns the number of webhooks with a scheduled claim.
func (w *Worker) Due() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.due)
}

// WaitingTries returns the number of tries that wait for the answer of an endpoint.
func (w *Worker) WaitingTries() (n int) {
	w.slots.mu.Lock()
	defer w.slots.mu.Unlock()
	for _, tries := range w.slots.waitingTries {
		n += len(tries)
	}
	return n
}
