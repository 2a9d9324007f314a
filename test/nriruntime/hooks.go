package nriruntime

import (
	"context"
	"path"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// Hooks are the places where faults are put in, and where the runtime can be watched. Any may be nil. They are called from several
// goroutines, and must not call the runtime's own methods but [Call.Deliver] and the like, unless from a goroutine of their own.
type Hooks struct {
	// Call is given every call of the runtime to a plugin instead of its being delivered. What it returns is what the runtime hears: nil
	// without a delivery is an empty reply.
	Call func(*Call) error
	// Update is asked what becomes of each change of a running or created container that a plugin wants.
	Update func(containerID string) Outcome
	// At is called at certain points of a container's life. An error makes what is going on fail there.
	At func(Point, *Container) error
	// Changed is given the state of the kernel after each of its changes, before anything else can change. It must not block.
	Changed func(Snapshot)
}

// Outcome is what becomes of an update.
type Outcome int

// The outcomes.
const (
	Done    Outcome = iota // as it should be
	Fails                  // it is not done, and said to have failed
	Pretend                // it is not done, and said to be done
)

// Point is a point in the life of a container.
type Point int

// The points, in order.
const (
	// Replied: plugins have agreed to the creation, and the runtime does not know the container yet. Updates to it are lost (window A).
	// An error undoes the creation with StopContainer and RemoveContainer.
	Replied Point = iota
	// MakingTask: just before runc create; part of the creation on CRI-O, of the start on containerd. An error is told to no plugin.
	MakingTask
	// Starting: plugins have heard of the start, and the container does not run yet. On containerd, updates to it are lost (window B).
	Starting
)

func (h *Hooks) at(p Point, c *Container) error {
	if h.At == nil {
		return nil
	}
	return h.At(p, c)
}

// Call is one call of the runtime to one plugin.
type Call struct {
	Method    string // of NRI's plugin service: Configure, Synchronize, RunPodSandbox, CreateContainer, ...
	Pod       string // the sandbox's id; empty where it is about none
	Container string // likewise

	ctx     context.Context
	request *ttrpc.Request
	reply   *ttrpc.Response
	info    *ttrpc.UnaryClientInfo
	invoke  ttrpc.Invoker
	conn    *connection
}

// Deliver passes the call on and waits for the plugin's reply, which becomes the runtime's.
func (c *Call) Deliver() error { return c.invoke(c.ctx, c.request, c.reply) }

// DeliverLater passes the call on after a while. Nobody hears the reply.
func (c *Call) DeliverLater(after time.Duration) {
	time.AfterFunc(after, func() {
		_ = c.invoke(context.Background(), c.request, &ttrpc.Response{})
	})
}

// Expire waits until the runtime's patience is at an end: with Deliver before, that is a reply that comes too late.
func (c *Call) Expire() error {
	<-c.ctx.Done()
	return c.ctx.Err()
}

// Disconnect drops the plugin's connection.
func (c *Call) Disconnect() { c.conn.close() }

// subject is what a call is about. It goes with the context through the adaptation to the interceptor.
type subject struct{ pod, container string }

type subjectKey struct{}

func withSubject(s subject) context.Context {
	return context.WithValue(context.Background(), subjectKey{}, s)
}

// connection is one plugin's connection.
type connection struct {
	client *ttrpc.Client
	relay  *relay
	born   time.Time

	// Under plugins.mu.
	plugin       string // its name, once it has been synchronized
	synchronized bool
}

// newConnection takes hold of the client that the adaptation has made for a plugin. It is a ttrpc.ClientOpts.
func (l *relay) newConnection(client *ttrpc.Client) {
	c := &connection{client: client, relay: l, born: time.Now()}
	ttrpc.WithUnaryClientInterceptor(c.intercept)(client)
	p := &l.r.plugins
	p.mu.Lock()
	p.open = append(p.open, c)
	p.mu.Unlock()
	go func() {
		_ = client.UserOnCloseWait(context.Background()) // it fails only with its context
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range p.open {
			if p.open[i] == c {
				p.open = append(p.open[:i:i], p.open[i+1:]...)
				break
			}
		}
		p.changed.Broadcast()
	}()
}

// close drops the connection. The adaptation goes on setting a connection up after it has made the client, and does not expect it to be
// closed meanwhile.
func (c *connection) close() {
	const settingUp = 5 * time.Millisecond
	time.Sleep(time.Until(c.born.Add(settingUp)))
	_ = c.client.Close()
}

// intercept is between the adaptation and the plugin: within the adaptation's time limit.
func (c *connection) intercept(ctx context.Context, request *ttrpc.Request, reply *ttrpc.Response, info *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	method := path.Base(info.FullMethod)
	switch method {
	case "Configure":
		if err := c.tellVersion(request); err != nil {
			return err
		}
	case "Synchronize":
		c.relay.synchronizing(c)
	}
	hook := c.relay.r.options.Hooks.Call
	if hook == nil {
		return invoke(ctx, request, reply)
	}
	s, _ := ctx.Value(subjectKey{}).(subject)
	return hook(&Call{
		Method: method, Pod: s.pod, Container: s.container,
		ctx: ctx, request: request, reply: reply, info: info, invoke: invoke, conn: c,
	})
}

// tellVersion puts the version of the NRI into the request in which plugins are told it.
func (c *connection) tellVersion(request *ttrpc.Request) (err error) {
	var configure api.ConfigureRequest
	if err := proto.Unmarshal(request.GetPayload(), &configure); err != nil {
		return err
	}
	configure.NRIVersion = c.relay.r.options.NRIVersion
	request.Payload, err = proto.Marshal(&configure)
	return err
}
