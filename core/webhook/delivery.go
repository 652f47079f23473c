// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/event"
)

// Delivery is one event for one endpoint, with the tries to send the event.
type Delivery struct {
	ID        string
	WebhookID string
	EventID   string
	EventType event.Type
	// Sequence is the position of the event in the account's log, 0 for a test.
	Sequence int64
	Status   DeliveryStatus
	// Tries is the number of tries since the delivery was created or redelivered.
	Tries    int
	Attempts []Attempt // the last tries, at most maxAttempts, oldest first
	// NextAttemptAt is the time of the next try of a pending delivery.
	NextAttemptAt time.Time
	CreatedAt     time.Time
	// Epoch grows each time a sender claims the delivery. A result is stored only if the epoch is
	// unchanged.
	Epoch int64
}

// TestType is the type of the event that a test of a webhook sends. No log contains such an event.
const TestType event.Type = "webhook.test"

// DeliveryStatus is the status of a delivery.
type DeliveryStatus string

// The statuses. A pending delivery has a next try. A failed delivery is tried again only if it is
// redelivered.
const (
	Pending   DeliveryStatus = "pending"
	Delivered DeliveryStatus = "delivered"
	Failed    DeliveryStatus = "failed"
)

// IsKnown reports whether s is one of the statuses.
func (s DeliveryStatus) IsKnown() bool { return s == Pending || s == Delivered || s == Failed }

// Attempt is the result of one try.
type Attempt struct {
	At         time.Time     `json:"at"`
	StatusCode int           `json:"status_code"` // 0 without an answer
	Error      string        `json:"error"`       // empty if the try succeeded
	Duration   time.Duration `json:"duration"`
}

// Response is the answer of an endpoint, or the reason why there is no complete answer.
type Response struct {
	StatusCode int
	// Error describes why there is no complete answer. It is safe to show to the account.
	Error      string
	Duration   time.Duration
	RetryAfter time.Duration // 0 unless the endpoint asked for a pause
	// Final is true if a further try cannot succeed.
	Final bool
	// NotSent is true if the service could not make the message, so the endpoint was not called.
	// Then Error says why.
	NotSent bool
}

// Accepted reports whether the endpoint accepted the message.
func (r Response) Accepted() bool { return r.Error == "" && r.StatusCode/100 == 2 }

// IsGone reports whether the endpoint says that it wants no more messages.
func (r Response) IsGone() bool { return r.StatusCode == http.StatusGone }

// maxRetryAfter limits the pause that an endpoint can ask for.
const maxRetryAfter = 24 * time.Hour

// maxAttempts is the maximum number of tries that a delivery stores. A redelivered delivery can
// have more tries, and stores only the last ones.
const maxAttempts = 50

// retryPauses holds the pauses after failed tries. After the last pause there is one more try.
var retryPauses = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// MaxTries is the maximum number of tries of a delivery. A redelivered delivery gets the same
// number of tries again.
const MaxTries = len(retryPauses) + 1

// AfterTry returns the delivery after a try that began at the given time. jitter is between 0 and
// 1. It makes a pause up to a fifth longer, so that deliveries that failed together are not
// repeated together.
func (d Delivery) AfterTry(r Response, at time.Time, jitter float64) Delivery {
	a := Attempt{At: at, StatusCode: r.StatusCode, Error: r.Error, Duration: r.Duration}
	if a.Error == "" && !r.Accepted() {
		a.Error = "the endpoint answered " + strconv.Itoa(r.StatusCode)
	}
	d.Attempts = append(d.Attempts[max(0, len(d.Attempts)+1-maxAttempts):len(d.Attempts):len(d.Attempts)], a)
	d.Tries++
	switch {
	case r.Accepted():
		d.Status = Delivered
	case r.Final, r.IsGone(), d.EventType == TestType, d.Tries >= MaxTries:
		d.Status = Failed
	default:
		pause := retryPauses[d.Tries-1]
		pause += time.Duration(jitter * float64(pause) / 5)
		d.NextAttemptAt = at.Add(r.Duration).Add(max(pause, min(r.RetryAfter, maxRetryAfter)))
	}
	return d
}
