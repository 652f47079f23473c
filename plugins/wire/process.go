// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tenantry/tenantry/plugins/proto"
)

// Launch says how to start a plugin process.
type Launch struct {
	Exe  string // what is executed
	Name string // what the process calls itself
	// Env is all that the process sees, but for what the handshake needs.
	Env []string
	// Line takes each line that the process prints. It is untrusted text of
	// at most MaxLine bytes, valid during the call; calls may overlap.
	Line func([]byte)
	// Timeout bounds the start, the first sign of health included.
	Timeout time.Duration
}

// Process is a running plugin.
type Process struct {
	client *plugin.Client
	run    *run
	conn   grpc.ClientConnInterface
	end    sync.Once
}

// Start starts a plugin process and waits until it is healthy. After an error
// nothing is left of it.
func Start(l Launch) (*Process, error) {
	r, err := newRun(l)
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	p := &Process{run: r, client: plugin.NewClient(clientConfig(l, r))}
	connected := make(chan struct{})
	go func() {
		err = p.connect(l.Timeout)
		close(connected)
	}()
	select {
	case <-connected:
	case <-time.After(l.Timeout):
		_ = r.Kill(context.Background())
		<-connected // it has lost its process
		err = fmt.Errorf("the plugin did not start within %s", l.Timeout)
	}
	if err != nil {
		p.Kill()
		return nil, startError(err)
	}
	return p, nil
}

func clientConfig(l Launch, r *run) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
			r.sockets = sockets
			r.cmd.Env = append(r.cmd.Env, cmd.Env...)
			return r, nil
		},
		AutoMTLS:     true,
		SkipHostEnv:  true,
		StartTimeout: l.Timeout,
		Stderr:       &lineWriter{line: l.Line},
		SyncStdout:   &lineWriter{line: l.Line},
		SyncStderr:   &lineWriter{line: l.Line},
		// Off: go-plugin would parse and print the plugin's lines itself.
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Off}),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
			grpc.WithStatsHandler(otelgrpc.NewClientHandler(tracing()...)),
		},
	}
}

func (p *Process) connect(within time.Duration) error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	conn, err := protocol.Dispense(service)
	if err != nil {
		return err
	}
	p.conn = conn.(grpc.ClientConnInterface)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Ping(ctx)
}

// startError puts go-plugin's words, which may quote the plugin's output, into
// one harmless line.
func startError(err error) error {
	if strings.Contains(err.Error(), "incompatible API version") || strings.Contains(err.Error(), "incompatible core API version") {
		return fmt.Errorf("%w: %s", ErrVersion, clean(err.Error()))
	}
	if strings.HasPrefix(err.Error(), "Unrecognized remote plugin message") {
		return errors.New("the program does not speak the plugin handshake")
	}
	return errors.New(clean(err.Error()))
}

// PID is the process id.
func (p *Process) PID() int { return int(p.run.pid.Load()) }

// Exited closes when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.run.exited }

// Ping asks the process for a sign of health.
func (p *Process) Ping(ctx context.Context) error {
	a, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err != nil {
		return fromStatus(err)
	}
	if a.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the plugin says it is %s", a.GetStatus())
	}
	return nil
}

// Describe asks the plugin who it is.
func (p *Process) Describe(ctx context.Context) (Description, error) {
	d, err := proto.NewPluginClient(p.conn).Describe(ctx, &proto.DescribeRequest{})
	if err != nil {
		return Description{}, fromStatus(err)
	}
	return descriptionIn(d), nil
}

// Stop asks the process to end, gives it the time to do so, then kills it.
func (p *Process) Stop(grace time.Duration) {
	_ = p.run.lifeline.Close()
	select {
	case <-p.run.exited:
	case <-time.After(grace):
	}
	p.Kill()
}

// Kill ends the process at once and waits until nothing is left of it.
func (p *Process) Kill() {
	p.end.Do(func() {
		_ = p.run.Kill(context.Background())
		if p.run.pid.Load() == 0 {
			p.run.close()
			return
		}
		<-p.run.exited
		p.client.Kill()
	})
}
