// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
)

// PowerDNS is an authoritative DNS server on loopback with its HTTP API. It uses the LMDB backend,
// because the SQLite backend does not accept concurrent writes. Its caches are off, so a query
// after a write returns the new record.
type PowerDNS struct {
	*child
	API string // http://127.0.0.1:PORT
	Key string // the key of the API
	// DNS is the address of the name server, for UDP and TCP. The server also listens on 127.0.0.2,
	// so that a zone can have two name servers.
	DNS string
}

const powerDNSConf = `launch=lmdb
lmdb-filename=$DIR/pdns.lmdb
lmdb-sync-mode=nosync
lmdb-shards=4
local-address=127.0.0.1,127.0.0.2
local-port=%s
socket-dir=$DIR
daemon=no
guardian=no
disable-syslog=yes
api=yes
api-key=%s
webserver=yes
webserver-address=127.0.0.1
webserver-port=%s
webserver-allow-from=127.0.0.0/8
cache-ttl=0
query-cache-ttl=0
negquery-cache-ttl=0
zone-cache-refresh-interval=0
default-soa-content=ns1.@ hostmaster.@ 0 3600 600 604800 60
`

// StartPowerDNS starts a server without zones and waits until it answers.
func StartPowerDNS(ctx context.Context) (*PowerDNS, error) {
	apiPort, err := freePort()
	if err != nil {
		return nil, err
	}
	dnsPort, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &PowerDNS{API: "http://127.0.0.1:" + apiPort, Key: rand.Text(), DNS: "127.0.0.1:" + dnsPort}
	files := map[string]string{"pdns.conf": fmt.Sprintf(powerDNSConf, dnsPort, p.Key, apiPort)}
	p.child, err = startChild(ctx, "pdns_server", []string{"--config-dir=$DIR"}, files, p.checkAnswers)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *PowerDNS) checkAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.API+"/api/v1/servers/localhost", nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", p.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
