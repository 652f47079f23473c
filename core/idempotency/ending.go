// SPDX-License-Identifier: Apache-2.0

package idempotency

// Effects is what a request did beyond reading its own database.
type Effects struct {
	// Asked: a provider was called, or the live DNS read.
	Asked bool
	// Answered: and it answered.
	Answered bool
	// Changed: something was stored, or may have been.
	Changed bool
}

// Ending is what becomes of a key when its run ends.
type Ending int

// The endings.
const (
	// Keep the answer and replay it from now on.
	Keep Ending = iota + 1
	// Leave the key with its request: the same one runs again and finds what
	// this run left behind.
	Leave
	// Release the key, as if it had never been used.
	Release
)

// End decides from the status of the answer and from what was done. A refusal
// is kept when a provider's answer or the live DNS led to it: asking again
// would be another question. What depends on the caller's credentials, plan
// or pace (401, 402, 429) is never kept, nor are internal errors.
func End(status int, e Effects) Ending {
	switch {
	case status >= 200 && status < 300:
		return Keep
	case e.Answered && status >= 400 && status < 500 && status != 401 && status != 402 && status != 429:
		return Keep
	case e.Asked || e.Changed:
		return Leave
	default:
		return Release
	}
}
