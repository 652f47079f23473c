// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// lingerTime is how long the server waits for the rest of a request body that no step reads. The
// server waits before it sends the answer, so that the connection can be reused. If the rest does
// not arrive in this time, the server waits again after the answer, and then closes the connection.
// After a failed read, and for a request with an Expect header, it waits only after the answer.
// maxRest is the maximum number of bytes that the server reads during each wait. net/http has the
// same limit.
const (
	lingerTime = 500 * time.Millisecond
	maxRest    = 256 << 10
)

// bodyState is how much of a request body has arrived.
type bodyState int

const (
	bodyUnread   bodyState = iota // no step has read it
	bodyComplete                  // it was read to its end
	bodyBroken                    // reading failed: the body is too slow, too large or malformed
)

// readAll reads a request body and records whether it is complete.
func (e *exchange) readAll(body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(body)
	e.body = bodyComplete
	if err != nil {
		e.body = bodyBroken
	}
	return content, err
}

// finishBody reads the rest of a request body that no step has read. It reports whether the body is
// complete, so that the connection can be reused.
//
// Without finishBody, net/http would read the rest before it sends the answer. The answer to a slow
// client would be delayed until the read timeout, about when sendTimeout ends.
func (e *exchange) finishBody(w http.ResponseWriter, r *http.Request, body io.Reader) bool {
	if body == nil || body == http.NoBody || e.body == bodyComplete {
		return true
	}
	// A client with an Expect header sends the body only after the server asks for it.
	if e.body == bodyBroken || r.Header.Get("Expect") != "" {
		return false
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(lingerTime)) // the response recorders of tests have no deadlines
	if _, err := io.CopyN(io.Discard, body, maxRest); !errors.Is(err, io.EOF) {
		return false
	}
	_ = connection.SetReadDeadline(time.Time{}) // net/http sets a new deadline for the next request
	return true
}

// linger flushes the answer. It then reads the bytes that the client still sends, before net/http
// closes the connection. If a connection is closed while it has unread bytes, the kernel resets the
// connection, and the client can lose the answer. net/http itself waits only after a body that is
// too large.
func linger(w http.ResponseWriter, body io.Reader) {
	connection := http.NewResponseController(w)
	if connection.Flush() != nil || connection.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return // the client has disconnected, or a test has no connection
	}
	_, _ = io.CopyN(io.Discard, body, maxRest)
}
