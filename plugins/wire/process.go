// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/proto"
)

// Launch contains the parameters of Start.
type Launch struct {
	Exe  string // path of the executable file
	Name string // the process name, argv[0]
	// Env is the environment of the process. Start adds the variables of the handshake.
	Env []string
	// OnLine is called with each line that the process prints to standard error, and with each line
	// of output that go-plugin sends over gRPC. A line is untrusted text of at most MaxLine bytes.
	// The slice is valid only during the call. Calls can be concurrent.
	OnLine func([]byte)
	// Limits limit what the process can use. Start sets them right after the start of the process.
	Limits Limits
	// Timeout limits the start, including the first health check.
	Timeout time.Duration
	// Abort makes Start fail when the channel is closed. It may be nil.
	Abort <-chan struct{}
	// OnOutcome is called with the detail and the cause of each outcome that the plugin returns, as
	// the plugin sent them. It may be nil. Calls can be concurrent.
	OnOutcome func(detail, cause string)
	// Redact removes secrets from output of the process that an error of Start quotes. It may be
	// nil.
	Redact func(string) string
}

// Process is a running plugin.
type Process struct {
	client   *plugin.Client
	runner   *processRunner
	conn     grpc.ClientConnInterface
	tls      *tls.Config // of the connections to the plugin
	killOnce sync.Once
}

// Start starts a plugin process and waits until it is healthy. It fails when the program cannot be
// run, does not complete the handshake, or is not healthy within Launch.Timeout. It also fails when
// Launch.Abort is closed. If Start fails, no process is left. The error wraps ErrVersion if the
// protocol versions differ.
func Start(launch Launch) (*Process, error) {
	r, err := newRunner(launch)
	if err != nil {
		return nil, fmt.Errorf("create pipes: %w", err)
	}
	config, err := clientConfig(launch, r)
	if err != nil {
		r.close()
		return nil, err
	}
	p := &Process{runner: r, client: plugin.NewClient(config), tls: config.TLSConfig}
	ctx, cancel := context.WithTimeout(context.Background(), launch.Timeout)
	defer cancel()
	connected := make(chan error, 1)
	panics.Go(func() { connected <- p.connect(ctx) }, func(e *panics.Error) { connected <- e })
	select {
	case err = <-connected:
	case <-ctx.Done():
		r.abort()
		_ = <-connected // connect returns, because abort has ended the process
	case <-launch.Abort:
		r.abort()
		_ = <-connected
		err = errors.New("the start of the plugin was aborted")
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the plugin did not start within %s", launch.Timeout)
	}
	if err != nil {
		p.Kill()
		redact := launch.Redact
		if redact == nil {
			redact = func(text string) string { return text }
		}
		return nil, p.ExplainExit(startError(err, redact))
	}
	return p, nil
}

func clientConfig(l Launch, r *processRunner) (*plugin.ClientConfig, error) {
	hostTLS, certificate, err := newHostTLS()
	if err != nil {
		return nil, err
	}
	return &plugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: pluginSets(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			r.socketDir = socketDir
			r.cmd.Env = append(append(r.cmd.Env, cmd.Env...), clientCertificateVariable+"="+string(certificate))
			return r, nil
		},
		TLSConfig:    hostTLS,
		SkipHostEnv:  true,
		StartTimeout: l.Timeout + time.Minute, // Start ends the process earlier, and its error names the time
		Stderr:       &lineWriter{emit: l.OnLine},
		SyncStdout:   &lineWriter{emit: l.OnLine},
		SyncStderr:   &lineWriter{emit: l.OnLine},
		// The logger is disabled, because go-plugin would parse and print the plugin's lines
		// itself.
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Off}),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
			grpc.WithStatsHandler(otelgrpc.NewClientHandler(tracingOptions()...)),
			grpc.WithChainUnaryInterceptor(reportOutcomes(l.OnOutcome)),
		},
	}, nil
}

func (p *Process) connect(ctx context.Context) error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	conn, err := protocol.Dispense(pluginName)
	if err != nil {
		return err
	}
	p.conn = conn.(grpc.ClientConnInterface)
	return p.Ping(ctx)
}

// PID returns the id of the process.
func (p *Process) PID() int { return int(p.runner.pid.Load()) }

// Limits returns the limits in force.
func (p *Process) Limits() Limits { return p.runner.limits }

// Exited returns a channel that is closed when the process has exited.
func (p *Process) Exited() <-chan struct{} { return p.runner.exited }

// HowExited returns how the process has exited, such as "exit status 2" or "signal: killed". It
// waits until the process has exited.
func (p *Process) HowExited() string {
	<-p.runner.exited
	return p.runner.state.String()
}

// ExplainExit adds to err how the process has exited, such as "exit status 2". It returns err
// unchanged if the process never started, or if it ran until Kill ended it. Call it only after Kill
// or Stop, because it waits until the process has exited.
func (p *Process) ExplainExit(err error) error {
	if p.runner.pid.Load() == 0 || p.runner.endedByKill() {
		return err
	}
	return fmt.Errorf("%w; the process had ended: %s", err, p.HowExited())
}

// Ping runs the health check of the process. It fails if the plugin does not answer, or reports
// that it is not serving.
func (p *Process) Ping(ctx context.Context) error {
	answer, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err != nil {
		return fromStatus(ctx, err)
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the plugin says it is %s", answer.GetStatus())
	}
	return nil
}

// Shutdown asks the plugin to exit with the method Shutdown of go-plugin. Many plugins close the
// connection before the answer, so an error does not mean that the process keeps running.
func (p *Process) Shutdown(ctx context.Context) error {
	return p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}

// AnswersStrangers runs the health check on connections that a plugin must refuse: without a
// certificate, with the certificate of a different host, and without TLS. It returns a description
// of each connection on which the plugin answered.
func (p *Process) AnswersStrangers(ctx context.Context) (answered []string, err error) {
	foreign, _, err := newHostTLS()
	if err != nil {
		return nil, err
	}
	foreign.RootCAs = p.tls.RootCAs
	anonymous := p.tls.Clone()
	anonymous.Certificates = nil
	for _, stranger := range []struct {
		connection  string
		credentials credentials.TransportCredentials
	}{
		{"without a client certificate", credentials.NewTLS(anonymous)},
		{"with the certificate of a different host", credentials.NewTLS(foreign)},
		{"without TLS", insecure.NewCredentials()},
	} {
		conn, err := grpc.NewClient("unix:"+p.client.ReattachConfig().Addr.String(), grpc.WithTransportCredentials(stranger.credentials))
		if err != nil {
			return nil, err
		}
		if (&Process{conn: conn}).Ping(ctx) == nil {
			answered = append(answered, stranger.connection)
		}
		_ = conn.Close()
	}
	return answered, nil
}

// Describe asks the plugin for its description.
func (p *Process) Describe(ctx context.Context) (Description, error) {
	d, err := proto.NewPluginClient(p.conn).Describe(ctx, &proto.DescribeRequest{})
	if err != nil {
		return Description{}, fromStatus(ctx, err)
	}
	return descriptionFromProto(d), nil
}

// Stop asks the process to exit by closing its standard input. If the process has not exited after
// grace, Stop kills it.
func (p *Process) Stop(grace time.Duration) {
	_ = p.runner.stdin.Close()
	select {
	case <-p.runner.exited:
	case <-time.After(grace):
	}
	p.Kill()
}

// Kill kills the process and the descendants in its process group, and waits until the process has
// exited.
func (p *Process) Kill() {
	p.killOnce.Do(func() {
		_ = p.runner.Kill(context.Background())
		if p.runner.pid.Load() == 0 {
			p.runner.close()
			return
		}
		<-p.runner.exited
		p.client.Kill()
	})
}

// SearchPath is the variable PATH of every plugin. Plugins do not get the PATH of the host, because
// PATH determines which interpreter runs a script. On Linux, usually only root can write to the
// folders of SearchPath.
const SearchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// MaxLine is the maximum length in bytes of a line of a plugin's output. Longer lines are
// truncated.
const MaxLine = 8 << 10

// lineWriter splits a stream into lines and calls emit with each line. It stores at most MaxLine
// bytes. It is not safe for concurrent use.
type lineWriter struct {
	emit func([]byte)
	buf  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		newline := bytes.IndexByte(p, '\n')
		if newline < 0 {
			w.appendTruncated(p)
			return n, nil
		}
		w.appendTruncated(p[:newline])
		w.emit(w.buf)
		w.buf = w.buf[:0]
		p = p[newline+1:]
	}
}

func (w *lineWriter) appendTruncated(p []byte) {
	space := MaxLine - len(w.buf)
	w.buf = append(w.buf, p[:min(space, len(p))]...)
}
