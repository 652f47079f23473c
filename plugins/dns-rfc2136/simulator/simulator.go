// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates an authoritative DNS server that accepts queries, and zone transfers
// and dynamic updates (RFC 2136) signed with a TSIG key, over TCP. It joins the strings of a TXT
// record, because the zones of a sandbox contain the joined text.
//
//   - simulator.go: New, the control calls, and the methods of simulate.Provider. Start here.
//   - listen.go: the DNS listener, which passes DNS messages as HTTP requests.
//   - message.go: TSIG, transfers and queries.
//   - update.go: prerequisites and changes.
package simulator

import (
	"io"
	"net/http"
	"strings"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "rfc2136"
	// KeyName and Secret are the TSIG key of the simulated server. The algorithm is hmac-sha256.
	KeyName = "simulated-key"
	Secret  = "c2ltdWxhdGVkLXJmYzIxMzYtc2VjcmV0"
	// OperatorZone is a zone that the key may transfer but not update. Because of this zone, the
	// setting `zones` is not empty if the sandbox has no zones at this provider.
	OperatorZone = "operator.rfc2136.sandbox-dns.test"
)

// simulator implements simulate.Provider. The body of a request is a DNS message. The body of the
// answer consists of DNS messages, each preceded by its length, as on a TCP connection.
type simulator struct {
	kit   *simulate.Kit
	zones *simulate.Zones
}

// New starts the DNS server, which has its own port and runs until the process ends. It returns the
// handler of the control calls, and the line that the simulator prints when it is ready. It fails
// if options.URL is invalid, if the data folder cannot be used, or if the server cannot listen.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, err := simulate.Open(provider, options)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	zones, err := simulate.OpenZones(kit)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &simulator{kit: kit, zones: zones}
	handler := kit.Handler(s, s.control())
	address, err := listen(options.DataDir, handler)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	return handler, simulate.Ready{
		Provider: provider, URL: options.URL, Control: []string{},
		Settings: map[string]string{"server": address, "zones": OperatorZone, "key_name": KeyName, "allow_private": "true"},
		Secrets:  map[string]string{"key_secret": Secret},
	}, nil
}

// control returns the handler of the control calls of simulate.Zones and of this call:
//
//	POST /_control/credentials    returns the setting `zones` with the names of all current zones
//
// A connection needs this setting, because the plugin serves only the zones in it.
func (s *simulator) control() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/_control/zones/", s.zones.Control())
	mux.HandleFunc("POST /_control/credentials", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Customer string `json:"customer"`
		}
		if err := simulate.ReadBody(r, &in); err != nil {
			simulate.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		zones, err := s.zones.List(r.Context())
		if err != nil {
			simulate.WriteError(w, http.StatusInternalServerError, err.Error())
			return
		}
		names := []string{OperatorZone}
		for _, z := range zones {
			names = append(names, z.Name)
		}
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"settings": map[string]string{"zones": strings.Join(names, ",")}})
	})
	return simulate.ControlCalls(mux, nil)
}

// Call implements simulate.Provider.
func (s *simulator) Call(_ *http.Request, body []byte) simulate.Call {
	msg := new(wire.Msg)
	if err := msg.Unpack(body); err != nil {
		return simulate.Call{Operation: "malformed"}
	}
	switch {
	case msg.Opcode == wire.OpcodeUpdate:
		return simulate.Call{Operation: "update", Write: true}
	case isTransfer(msg):
		return simulate.Call{Operation: "transfer"}
	}
	return simulate.Call{Operation: "query"}
}

// Fail implements simulate.Provider. A DNS message has no HTTP status, so 403 stands for REFUSED,
// 501 for NOTIMP, and any other status for SERVFAIL.
func (s *simulator) Fail(w http.ResponseWriter, r *http.Request, status, _ int) {
	code, known := map[int]int{http.StatusForbidden: wire.RcodeRefused, http.StatusNotImplemented: wire.RcodeNotImplemented}[status]
	if !known {
		code = wire.RcodeServerFailure
	}
	if q := s.requestOf(r); q != nil {
		_, _ = w.Write(q.replyWithCode(code))
	}
}

// ServeHTTP implements simulate.Provider.
func (s *simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if q := s.requestOf(r); q != nil {
		_, _ = w.Write(s.answer(r.Context(), q))
	}
}

// requestOf returns the message in the body of a request, or nil if the body contains none.
func (s *simulator) requestOf(r *http.Request) *request {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	return newRequest(raw)
}
