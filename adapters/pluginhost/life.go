// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"fmt"

	"github.com/tenantry/tenantry/plugins/wire"
)

// life is one process of a plugin. Its fields below process belong to the
// mutex of its plugin.
type life struct {
	process     *wire.Process
	description wire.Description
	settled     chan struct{} // closes when its end has been taken in
	answered    bool          // it was of use
	wanted      bool          // its end is our doing
	unanswered  int           // calls in a row that ended with their deadline
	pinging     bool
}

// launch starts a process of the file that the catalog names, if it is still
// that file and says that it is that plugin.
func (s *supervised) launch() (*life, error) {
	o := s.host.options
	file, err := openVerified(o.Dir, s.entry)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	p, err := wire.Start(wire.Launch{
		Exe:     executable(file),
		Name:    s.entry.File,
		Env:     environment(s.entry.Name, o.Env, o.TelemetryHeaders),
		Line:    newOutput(s.log, &s.host.redactor).line,
		Timeout: s.patience.Start,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience.Start)
	defer cancel()
	d, err := p.Describe(ctx)
	if err == nil && (d.Name != s.entry.Name || string(d.Kind) != s.entry.Kind) {
		err = fmt.Errorf("the plugin says it is %.60q of kind %.60q", d.Name, d.Kind)
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return &life{process: p, description: d, settled: make(chan struct{})}, nil
}

func (l *life) over() bool {
	select {
	case <-l.process.Exited():
		return true
	default:
		return false
	}
}
