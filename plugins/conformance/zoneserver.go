// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// zoneServer serves the HTTP interface that the simulator of one check uses
// (simulate.Options.World). It has the zones of a simulated DNS provider, and a DNS server for the
// simulator of a mail platform. In a sandbox, the sandbox serves these calls.
type zoneServer struct {
	url      string
	provider string // the id of the provider of the zones
	dnsAddr  string // the address of the DNS server, or empty

	mu    sync.Mutex
	zones []*zoneDoc
}

// zoneDoc is the JSON document of a zone. docs/plugins.md describes it.
type zoneDoc struct {
	simulate.Zone

	Provider string          `json:"provider"`
	Veiled   json.RawMessage `json:"veiled"`
}

func newZoneServer(t T, provider string) *zoneServer {
	t.Helper()
	s := &zoneServer{provider: provider}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /zones", s.list)
	mux.HandleFunc("PUT /zones/{name}", s.edit)
	mux.HandleFunc("GET /dns", func(response http.ResponseWriter, _ *http.Request) {
		simulate.WriteJSON(response, http.StatusOK, map[string]string{"addr": s.dnsAddr})
	})
	s.url = startServer(t, mux)
	return s
}

func (s *zoneServer) list(response http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []zoneDoc{}
	for _, z := range s.zones {
		if name := r.URL.Query().Get("name"); r.URL.Query().Get("provider") == s.provider && (name == "" || name == z.Name) {
			found = append(found, *z)
		}
	}
	simulate.WriteJSON(response, http.StatusOK, found)
}

func (s *zoneServer) edit(response http.ResponseWriter, r *http.Request) {
	var sent zoneDoc
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&sent); err != nil {
		simulate.WriteError(response, http.StatusBadRequest, "the body is not a zone: "+err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	zone := s.find(r.PathValue("name"))
	switch {
	case zone == nil:
		simulate.WriteError(response, http.StatusNotFound, "no such zone")
	case zone.Version != sent.Version:
		simulate.WriteError(response, http.StatusConflict, "the zone has changed")
	default:
		zone.Version++
		zone.Records, zone.Veiled = sent.Records, sent.Veiled
		simulate.WriteJSON(response, http.StatusOK, struct{}{})
	}
}

func (s *zoneServer) find(name string) *zoneDoc {
	for _, z := range s.zones {
		if z.Name == name {
			return z
		}
	}
	return nil
}

// add creates an empty zone and returns its name.
func (s *zoneServer) add() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("zone-%d.test", len(s.zones)+1)
	zone := simulate.Zone{
		Name: name, NameServers: []string{"ns1.provider.example", "ns2.provider.example"}, Version: 1, Records: []simulate.Record{},
	}
	s.zones = append(s.zones, &zoneDoc{Zone: zone, Provider: s.provider, Veiled: json.RawMessage("[]")})
	return name
}

// replace removes the records of a zone for which remove returns true, and adds the records in
// added. A check calls it to edit a zone as the zone's owner would.
func (s *zoneServer) replace(zone string, remove func(simulate.Record) bool, added []simulate.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.find(zone)
	z.Version++
	z.Records = append(slices.DeleteFunc(slices.Clone(z.Records), remove), added...)
}

func (s *zoneServer) records(zone string) []simulate.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.find(zone).Records)
}

// serveDNS starts a DNS server on UDP that answers with the records of the zones.
func (s *zoneServer) serveDNS(t T) {
	t.Helper()
	var config net.ListenConfig
	conn, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.dnsAddr = conn.LocalAddr().String()
	ended := make(chan struct{})
	panics.Go(func() {
		defer close(ended)
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // the check has ended
			}
			if answer, err := s.answer(packet[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}, func(e *panics.Error) { t.Errorf("DNS server: %v", e) })
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
}

func (s *zoneServer) answer(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil, errors.New("the packet is not a message with one question")
	}
	m.Response, m.Additionals = true, nil
	question := m.Questions[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, z := range s.zones {
		for _, r := range z.Records {
			if !strings.EqualFold(r.Name+".", question.Name.String()) || "Type"+r.Type != question.Type.String() {
				continue
			}
			body, err := resource(r)
			if err != nil {
				return nil, err
			}
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 60}, Body: body,
			})
		}
	}
	return m.Pack()
}

// resource returns the body of a record in a DNS message.
func resource(r simulate.Record) (dnsmessage.ResourceBody, error) {
	if r.Type == string(dns.TXT) {
		body := &dnsmessage.TXTResource{}
		for text := range slices.Chunk([]byte(r.Content), 255) {
			body.TXT = append(body.TXT, string(text))
		}
		return body, nil
	}
	target, err := dnsmessage.NewName(r.Content + ".")
	if err != nil {
		return nil, err
	}
	if r.Type == string(dns.MX) {
		return &dnsmessage.MXResource{Pref: uint16(*r.Priority), MX: target}, nil
	}
	return &dnsmessage.CNAMEResource{CNAME: target}, nil
}
