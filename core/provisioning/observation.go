// SPDX-License-Identifier: Apache-2.0

package provisioning

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
)

// Observation is what a step found out. The zero value is a step that found
// nothing: a read that saw nothing reliable, a platform that is not ready.
type Observation struct {
	// Err is why the step has no answer: a refusal or an outcome of the mail
	// platform or of our own parts. Anything else is taken for a fault of ours.
	Err error
	// WriteErr is how the DNS provider ended Apply's write, nil when there was
	// none or it is done.
	WriteErr error
	// Zone is what the zone needs, after Plan, Apply, ReadDNS and Validate, and
	// after a Verify or EnableDKIM that the platform was not ready for. A read
	// that could not be made is the zero Zone.
	Zone Zone
	// Shown, after ReadDNS: a reliable read in which every server that answers
	// shows all that the plan wants.
	Shown bool
	// NegativeTTL is min(SOA TTL, SOA MINIMUM) of the zone, 0 when not known.
	NegativeTTL time.Duration
	// Ready, after Apply: the plan was written, after Validate: the platform
	// signs, after its other steps: it has done what was asked.
	Ready bool
}

// Zone is what a job has to know of a plan and of who holds the zone.
type Zone struct {
	// Provider is who holds it, "" when there is no plugin for them.
	Provider string
	// Held is true when the plan was made from the provider's own list.
	Held     bool
	Reliable bool
	// Conflict: something blocks. Changes: something is to be written.
	Conflict, Changes bool
	Hash              string
	// Required and Message are those of dns.Automation.
	Required dns.ActionRequired
	Message  string
}

// ZoneOf reduces a plan to what a job has to know.
func ZoneOf(h dns.Holder, a dns.Automation, p dns.Plan) Zone {
	return Zone{
		Provider: a.Provider.ID, Held: h.Access.Standing == dns.ReachesZone,
		Reliable: p.Reliable, Conflict: len(p.Blocking()) > 0, Changes: len(p.Changes) > 0,
		Hash: p.Hash(), Required: a.Required, Message: a.Message,
	}
}

// settled is a zone that needs nothing more, whoever wrote what is there.
func (z Zone) settled() bool { return z.Reliable && !z.Conflict && !z.Changes }

// required is what keeps the zone's changes from being written.
func (z Zone) required() dns.ActionRequired {
	switch {
	case z.Required != "":
		return z.Required
	case !z.Reliable:
		return dns.ReadUnreliable
	case z.Conflict:
		return dns.ConflictToSettle
	default:
		return ""
	}
}
