/* The classes of hot.py, compiled: read that first. What is rare goes to the same methods of their Python subclasses.

   Not thread-safe beyond the GIL; times are ns of CLOCK_MONOTONIC. Histograms are laid out as in histogram.py.       */
#ifndef __linux__
#error "elsewhere than on Linux Python's clock is not CLOCK_MONOTONIC"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <structmember.h>
#include <sys/uio.h>
#include <time.h>

#define UNIT_BITS 9
#define HALF_BITS 10
#define HIGHEST_NS (24LL * 3600 * 1000000000LL)
#define BUCKETS 28906 /* index_of(HIGHEST_NS) + 1 */
#define MOST_LABELS 2
#define MOST_PIECES 4
#define STATUSES 1000 /* three digits */
#define PART_NS 2000000 /* as in slice_rate.py */
#define MANY_BYTES 65536 /* a write of so many lets other threads run */

typedef long long ns_t;

static PyObject *get_running_loop;
static PyTypeObject MeterType, InboxType, LinkType, LaneType;

static ns_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Call a method of a Python subclass for its effect. */
#define DO(...) done(PyObject_CallMethod(__VA_ARGS__))
static int done(PyObject *result) {
    if (result == NULL)
        return -1;
    Py_DECREF(result);
    return 0;
}

static int truth(PyObject *result) {
    int is_true = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return is_true;
}

/* Call what an attribute holds, which the call may replace; a missing one is an error. */
static PyObject *call(PyObject *callable, PyObject *const *arguments, size_t count) {
    PyObject *held[3] = {NULL};
    int is_whole = callable != NULL;
    for (size_t i = 0; i < count; i++)
        is_whole = (held[i] = arguments[i]) != NULL && is_whole;
    if (!is_whole) {
        PyErr_SetString(PyExc_AttributeError, "a part of the Lane is missing");
        return NULL;
    }
    Py_INCREF(callable);
    for (size_t i = 0; i < count; i++)
        Py_INCREF(held[i]);
    PyObject *result = PyObject_Vectorcall(callable, held, count, NULL);
    for (size_t i = 0; i < count; i++)
        Py_DECREF(held[i]);
    Py_DECREF(callable);
    return result;
}

/* Whether a subclass has methods of its own in place of ours: then it is called as Python calls it. -1 for an error. */
static int replaces(PyTypeObject *type, PyTypeObject *ours) {
    int found = 0;
    for (PyMethodDef *method = ours->tp_methods; method->ml_name && !found; method++) {
        PyObject *own = PyObject_GetAttrString((PyObject *)ours, method->ml_name);
        PyObject *theirs = PyObject_GetAttrString((PyObject *)type, method->ml_name);
        found = own == NULL || theirs == NULL ? -1 : own != theirs;
        Py_XDECREF(own);
        Py_XDECREF(theirs);
    }
    return found;
}

/* Histograms */

typedef struct {
    uint32_t *counts;
    int low, high; /* buckets in use */
    ns_t count, total_ns, min_ns, max_ns, clamped;
} Hist;

static int hist_add(Hist *h, ns_t ns) {
    if (h->counts == NULL && (h->counts = calloc(BUCKETS, sizeof *h->counts)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (ns < 0 || ns > HIGHEST_NS) {
        h->clamped++;
        ns = ns < 0 ? 0 : HIGHEST_NS;
    }
    int shift = 64 - __builtin_clzll((uint64_t)ns | 1) - (UNIT_BITS + HALF_BITS + 1);
    if (shift < 0)
        shift = 0;
    int index = (shift << HALF_BITS) + (int)(ns >> (shift + UNIT_BITS));
    if (!h->count || index < h->low)
        h->low = index;
    if (!h->count || index > h->high)
        h->high = index;
    if (!h->count || ns < h->min_ns)
        h->min_ns = ns;
    if (!h->count || ns > h->max_ns)
        h->max_ns = ns;
    h->counts[index]++;
    h->count++;
    h->total_ns += ns;
    return 0;
}

/* Move what was counted into a `Counts`. */
static int hist_fold(Hist *h, PyObject *counts) {
    int failed = -1;
    PyObject *buckets;
    if (!h->count)
        return 0;
    if (counts == NULL || (buckets = PyDict_New()) == NULL)
        return -1;
    for (int index = h->low; index <= h->high; index++) {
        if (!h->counts[index])
            continue;
        PyObject *key = PyLong_FromLong(index), *value = PyLong_FromUnsignedLong(h->counts[index]);
        failed = key == NULL || value == NULL ? -1 : PyDict_SetItem(buckets, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed)
            break;
        h->counts[index] = 0;
    }
    if (!failed)
        failed = DO(counts, "absorb", "OLLLL", buckets, h->total_ns, h->min_ns, h->max_ns, h->clamped);
    Py_DECREF(buckets);
    h->count = h->total_ns = h->clamped = 0;
    return failed;
}

static int hist_fold_into(Hist *h, PyObject *owner, const char *name) {
    if (!h->count)
        return 0;
    PyObject *counts = PyObject_GetAttrString(owner, name);
    int failed = hist_fold(h, counts);
    Py_XDECREF(counts);
    return failed;
}

/* Add to a number that is an attribute; a whole number stays an int. */
static int add_to(PyObject *owner, const char *name, double number) {
    if (number == 0)
        return 0;
    PyObject *before = PyObject_GetAttrString(owner, name);
    PyObject *more = number == (double)(ns_t)number ? PyLong_FromDouble(number) : PyFloat_FromDouble(number);
    PyObject *sum = before && more ? PyNumber_Add(before, more) : NULL;
    int failed = sum ? PyObject_SetAttrString(owner, name, sum) : -1;
    Py_XDECREF(before);
    Py_XDECREF(more);
    Py_XDECREF(sum);
    return failed;
}

/* Link, here because a meter counts its bytes */

typedef struct {
    PyObject_HEAD
    PyObject *owner, *inbox;
    int fd;
    char replaced; /* it has methods of its own */
    char usable, in_flight, partial;
    ns_t sent_ns, received_ns, deadline_ns, bytes_sent, bytes_received;
} Link;

/* Meter */

enum { LATENCY, SERVICE_TIME, CLIENT_WAIT, DRIVER_LAG, PUNCTUAL, SCHEDULE_LAG, MEASURES };
static const char *const measures[] = {"latency", "service_time", "client_wait", "driver_lag", "punctual", "schedule_lag"};

typedef struct {
    PyObject *name;
    Hist service_time;
} Label;

/* What a verdict says, which is frozen: most replies have one of a few. */
typedef struct {
    PyObject *verdict, *label; /* label: NULL for none */
    double units;
    int is_good; /* neither error nor details */
} Worth;

static int read_worth(Worth *worth, PyObject *verdict) {
    if (worth->verdict == verdict)
        return 0;
    PyObject *error = PyObject_GetAttrString(verdict, "error"), *details = PyObject_GetAttrString(verdict, "details");
    PyObject *label = PyObject_GetAttrString(verdict, "label"), *units = PyObject_GetAttrString(verdict, "units");
    int failed = error == NULL || details == NULL || label == NULL || units == NULL;
    if (!failed) {
        worth->is_good = error == Py_None && details == Py_None;
        worth->units = PyFloat_AsDouble(units);
        failed = PyErr_Occurred() != NULL;
        Py_XSETREF(worth->label, label == Py_None ? NULL : Py_NewRef(label));
        Py_XSETREF(worth->verdict, Py_NewRef(verdict));
    }
    Py_XDECREF(error);
    Py_XDECREF(details);
    Py_XDECREF(label);
    Py_XDECREF(units);
    return failed ? -1 : 0;
}

typedef struct {
    PyObject_HEAD
    char repeats, is_warmup, is_in_window, is_open, holds; /* holds: something was counted since the last fold */
    char replaced;
    ns_t begun, most, end_ns, warmup_end_ns, warmup_requests, last_received_ns, from_ns, until_ns, second_ns;
    PyObject *tally;
    ns_t due, waited, sent, requests, in_window, bytes_sent, bytes_received, driver_ns;
    double units, in_window_units;
    int limits;
    ns_t *within_ns, *within;
    Hist hists[MEASURES], completed_at;
    Label labels[MOST_LABELS];
    Worth worth; /* of the last reply */
    uint32_t statuses[STATUSES];
} Meter;

static int Meter_init(Meter *m, PyObject *args, PyObject *kwargs) {
    int is_open;
    PyObject *within;
    if (!PyArg_ParseTuple(args, "pO!", &is_open, &PyTuple_Type, &within))
        return -1;
    m->is_open = (char)is_open;
    m->most = m->end_ns = 1LL << 62;
    int limits = (int)PyTuple_GET_SIZE(within);
    ns_t *within_ns = PyMem_Calloc(2 * limits + 1, sizeof *within_ns);
    if (within_ns == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(m->within_ns);
    m->limits = limits;
    m->within_ns = within_ns;
    m->within = within_ns + limits;
    for (int i = 0; i < limits; i++)
        within_ns[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(within, i));
    return PyErr_Occurred() ? -1 : 0;
}

static int Meter_traverse(Meter *m, visitproc visit, void *arg) {
    Py_VISIT(m->tally);
    Py_VISIT(m->worth.verdict);
    Py_VISIT(m->worth.label);
    return 0;
}

static int Meter_clear(Meter *m) {
    Py_CLEAR(m->tally);
    Py_CLEAR(m->worth.verdict);
    Py_CLEAR(m->worth.label);
    return 0;
}

static void Meter_dealloc(Meter *m) {
    PyTypeObject *type = Py_TYPE(m);
    PyObject_GC_UnTrack(m);
    Meter_clear(m);
    PyMem_Free(m->within_ns);
    for (int i = 0; i < MEASURES; i++)
        free(m->hists[i].counts);
    free(m->completed_at.counts);
    for (int i = 0; i < MOST_LABELS; i++) {
        Py_XDECREF(m->labels[i].name);
        free(m->labels[i].service_time.counts);
    }
    type->tp_free(m);
}

static int fold_into(Meter *m, PyObject *tally) {
    m->holds = 0;
    if (add_to(tally, "due", m->due) || add_to(tally, "waited", m->waited) || add_to(tally, "sent", m->sent) ||
        add_to(tally, "requests", m->requests) || add_to(tally, "units", m->units) ||
        add_to(tally, "in_window", m->in_window) || add_to(tally, "in_window_units", m->in_window_units) ||
        add_to(tally, "bytes_sent", m->bytes_sent) || add_to(tally, "bytes_received", m->bytes_received) ||
        add_to(tally, "driver_ns", m->driver_ns) || hist_fold_into(&m->completed_at, tally, "completed_at"))
        return -1;
    m->driver_ns = m->due = m->waited = m->sent = m->requests = m->in_window = m->bytes_sent = m->bytes_received = 0;
    m->statuses[0] = 0; /* of requests without a status */
    for (int status = 1; status < STATUSES; status++) {
        if (m->statuses[status] && DO(tally, "add_status", "iI", status, m->statuses[status]))
            return -1;
        m->statuses[status] = 0;
    }
    m->units = m->in_window_units = 0;
    for (int i = 0; i < MEASURES; i++)
        if (hist_fold_into(&m->hists[i], tally, measures[i]))
            return -1;
    for (int i = 0; i < MOST_LABELS; i++) {
        ns_t count = m->labels[i].service_time.count;
        if (!count)
            continue;
        PyObject *part = PyObject_CallMethod(tally, "part", "O", m->labels[i].name);
        int failed = part == NULL || add_to(part, "requests", count) ||
                     hist_fold_into(&m->labels[i].service_time, part, "service_time");
        Py_XDECREF(part);
        if (failed)
            return -1;
    }
    if (m->limits) {
        PyObject *within = PyObject_GetAttrString(tally, "within");
        for (int i = 0; within && i < m->limits; i++) {
            PyObject *before = PySequence_GetItem(within, i);
            PyObject *more = PyLong_FromLongLong(m->within[i]), *sum = before && more ? PyNumber_Add(before, more) : NULL;
            if (sum == NULL || PySequence_SetItem(within, i, sum))
                Py_CLEAR(within);
            Py_XDECREF(before);
            Py_XDECREF(more);
            Py_XDECREF(sum);
            m->within[i] = 0;
        }
        if (within == NULL)
            return -1;
        Py_DECREF(within);
    }
    return 0;
}

static PyObject *Meter_fold(Meter *m, PyObject *none) {
    if (!m->holds)
        Py_RETURN_NONE;
    if (m->tally == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a Meter has no tally before its first segment");
        return NULL;
    }
    PyObject *tally = Py_NewRef(m->tally);
    int failed = fold_into(m, tally);
    Py_DECREF(tally);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* Whether a time and phase lie in the current segment, which follows them; -1 for an error. */
static int is_current(Meter *m, ns_t at_ns, int warmup) {
    if (m->from_ns <= at_ns && at_ns < m->until_ns && warmup == m->is_warmup)
        return 1;
    return truth(PyObject_CallMethod((PyObject *)m, "move_to", "LO", at_ns, warmup ? Py_True : Py_False));
}

static int add_apart(Meter *m, ns_t at_ns, int warmup, const char *name, const char *other) {
    PyObject *tally = PyObject_CallMethod((PyObject *)m, "count_apart", "LO", at_ns, warmup ? Py_True : Py_False);
    int failed = tally == NULL || add_to(tally, name, 1) || (other && add_to(tally, other, 1));
    Py_XDECREF(tally);
    return failed ? -1 : 0;
}

static int meter_sent(Meter *m, ns_t sent_ns, int warmup) {
    int current = is_current(m, sent_ns, warmup);
    if (current < 1)
        return current ? -1 : add_apart(m, sent_ns, warmup, "sent", NULL);
    m->sent++;
    m->holds = 1;
    return 0;
}

/* Where a label is counted; NULL when there is no room for it. */
static Label *find_label(Meter *m, PyObject *name) {
    for (int i = 0; i < MOST_LABELS; i++) {
        if (m->labels[i].name == NULL)
            m->labels[i].name = Py_NewRef(name);
        if (m->labels[i].name == name)
            return &m->labels[i];
    }
    return NULL;
}

static int meter_good(Meter *m, ns_t due_ns, ns_t free_ns, ns_t sent_ns, ns_t received_ns, int warmup, PyObject *verdict,
                      Link *link, PyObject *status) {
    long code = PyLong_AsLong(status);
    if (code == -1 && PyErr_Occurred())
        return -1;
    int current = is_current(m, received_ns, warmup), failed = 0;
    if (current < 0 || read_worth(&m->worth, verdict))
        return -1;
    Label *label = m->worth.label ? find_label(m, m->worth.label) : NULL;
    if (!current || (m->worth.label && !label) || code < 0 || code >= STATUSES)
        return DO((PyObject *)m, "exchanged", "OOLO", link, status, received_ns, warmup ? Py_True : Py_False) ||
               DO((PyObject *)m, "completed", "LLLLOO", due_ns, free_ns, sent_ns, received_ns,
                  warmup ? Py_True : Py_False, verdict) ? -1 : 0;
    ns_t service_ns = received_ns - sent_ns, charged_ns = service_ns;
    double units = m->worth.units;
    failed = label && hist_add(&label->service_time, service_ns);
    m->holds = 1;
    m->bytes_sent += link->bytes_sent;
    m->bytes_received += link->bytes_received;
    m->statuses[code]++;
    m->requests++;
    m->units += units;
    if (m->is_in_window) {
        m->in_window++;
        m->in_window_units += units;
    }
    if (!warmup)
        m->last_received_ns = received_ns;
    failed = failed || hist_add(&m->hists[SERVICE_TIME], service_ns);
    if (m->is_open) {
        charged_ns = received_ns - due_ns;
        failed = failed || hist_add(&m->hists[LATENCY], charged_ns);
        if (free_ns <= due_ns)
            failed = failed || hist_add(&m->hists[PUNCTUAL], sent_ns - due_ns);
        else
            failed = failed || hist_add(&m->hists[CLIENT_WAIT], free_ns - due_ns) ||
                     hist_add(&m->hists[DRIVER_LAG], sent_ns - free_ns) ||
                     hist_add(&m->hists[SCHEDULE_LAG], sent_ns - due_ns);
    } else
        m->driver_ns += sent_ns - free_ns;
    if (m->second_ns && received_ns < m->until_ns)
        failed = failed || hist_add(&m->completed_at, (received_ns - m->second_ns) / PART_NS * PART_NS);
    for (int i = 0; i < m->limits; i++)
        if (charged_ns <= m->within_ns[i]) {
            m->within[i]++;
            break;
        }
    return failed ? -1 : 0;
}

static PyObject *Meter_arrived(Meter *m, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"due_ns", "warmup", "waits", NULL};
    ns_t due_ns;
    int warmup, waits;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Lpp", names, &due_ns, &warmup, &waits))
        return NULL;
    int current = is_current(m, due_ns, warmup);
    if (current < 0 || (!current && add_apart(m, due_ns, warmup, "due", waits ? "waited" : NULL)))
        return NULL;
    if (current) {
        m->due++;
        m->waited += waits;
        m->holds = 1;
    }
    Py_RETURN_NONE;
}

static PyObject *Meter_sent(Meter *m, PyObject *args) {
    ns_t sent_ns;
    int warmup;
    if (!PyArg_ParseTuple(args, "Lp", &sent_ns, &warmup) || meter_sent(m, sent_ns, warmup))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *Meter_good(Meter *m, PyObject *args) {
    ns_t due_ns, free_ns, sent_ns, received_ns;
    int warmup;
    PyObject *verdict, *link, *status;
    if (!PyArg_ParseTuple(args, "LLLLpOO!O", &due_ns, &free_ns, &sent_ns, &received_ns, &warmup, &verdict, &LinkType, &link,
                          &status) ||
        meter_good(m, due_ns, free_ns, sent_ns, received_ns, warmup, verdict, (Link *)link, status))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef Meter_methods[] = {
    {"arrived", (PyCFunction)(void (*)(void))Meter_arrived, METH_VARARGS | METH_KEYWORDS, NULL},
    {"sent", (PyCFunction)Meter_sent, METH_VARARGS, NULL},
    {"good", (PyCFunction)Meter_good, METH_VARARGS, NULL},
    {"fold", (PyCFunction)Meter_fold, METH_NOARGS, NULL},
    {NULL}};
#define AT(type, field) offsetof(type, field)
static PyMemberDef Meter_members[] = {
    {"repeats", T_BOOL, AT(Meter, repeats)},
    {"is_warmup", T_BOOL, AT(Meter, is_warmup)},
    {"is_in_window", T_BOOL, AT(Meter, is_in_window)},
    {"begun", T_LONGLONG, AT(Meter, begun)},
    {"most", T_LONGLONG, AT(Meter, most)},
    {"end_ns", T_LONGLONG, AT(Meter, end_ns)},
    {"warmup_end_ns", T_LONGLONG, AT(Meter, warmup_end_ns)},
    {"warmup_requests", T_LONGLONG, AT(Meter, warmup_requests)},
    {"last_received_ns", T_LONGLONG, AT(Meter, last_received_ns)},
    {"from_ns", T_LONGLONG, AT(Meter, from_ns)},
    {"until_ns", T_LONGLONG, AT(Meter, until_ns)},
    {"second_ns", T_LONGLONG, AT(Meter, second_ns)},
    {"_tally", T_OBJECT_EX, AT(Meter, tally)},
    {NULL}};

/* Inbox and Lane */

typedef struct {
    Link *link;
    PyObject *data;
    ns_t read_ns;
} Read;

typedef struct {
    PyObject_HEAD
    Read *reads; /* the first `handled` ones are handled already */
    Py_ssize_t handled, count, room;
    char scheduled;
} Inbox;

typedef struct {
    PyObject_HEAD
    PyObject *meter, *link, *draw, *render, *judge, *drawn, *loop;
    char is_plain, warmup, replaced;
    ns_t timeout_ns, free_ns, due_ns, sent_ns;
} Lane;

static int schedule(Inbox *inbox) {
    PyObject *loop = PyObject_CallNoArgs(get_running_loop), *handle = PyObject_GetAttrString((PyObject *)inbox, "handle");
    int failed = loop == NULL || handle == NULL ? -1 : DO(loop, "call_soon", "O", handle);
    inbox->scheduled = !failed;
    Py_XDECREF(loop);
    Py_XDECREF(handle);
    return failed;
}

static PyObject *Link_data_received(Link *link, PyObject *data) {
    Inbox *inbox = (Inbox *)link->inbox;
    if (inbox == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a Link begins with an inbox");
        return NULL;
    }
    if (inbox->count == inbox->room) {
        Py_ssize_t room = inbox->room ? 2 * inbox->room : 64;
        Read *reads = PyMem_Realloc(inbox->reads, room * sizeof *reads);
        if (reads == NULL)
            return PyErr_NoMemory();
        inbox->reads = reads;
        inbox->room = room;
    }
    inbox->reads[inbox->count++] = (Read){(Link *)Py_NewRef(link), Py_NewRef(data), now()};
    if (!inbox->scheduled && schedule(inbox))
        return NULL;
    Py_RETURN_NONE;
}

static int write_later(Link *link, PyObject *pieces, Py_ssize_t written) {
    return truth(PyObject_CallMethod((PyObject *)link, "write_later", "On", pieces, written));
}

/* 1 when the request was written, or will be; 0 when the connection turned out to be lost; -1 for an error. */
static int link_send(Link *link, PyObject *pieces, ns_t timeout_ns) {
    Py_buffer views[MOST_PIECES];
    struct iovec vector[MOST_PIECES];
    Py_ssize_t count = PySequence_Size(pieces), total = 0, written = -1;
    int n = 0, error = 0;
    if (count < 0)
        return -1;
    link->sent_ns = now();
    link->deadline_ns = link->sent_ns + timeout_ns;
    link->in_flight = 1;
    link->bytes_received = 0;
    if (link->fd < 0 || count > MOST_PIECES)
        return write_later(link, pieces, 0);
    for (; n < count; n++) {
        PyObject *piece = PySequence_GetItem(pieces, n); /* `pieces` goes on holding it */
        int failed = piece == NULL || PyObject_GetBuffer(piece, &views[n], PyBUF_SIMPLE);
        Py_XDECREF(piece);
        if (failed) {
            while (n)
                PyBuffer_Release(&views[--n]);
            return -1;
        }
        vector[n] = (struct iovec){views[n].buf, views[n].len};
        total += views[n].len;
    }
    do {
        if (total < MANY_BYTES)
            written = writev(link->fd, vector, n);
        else {
            Py_BEGIN_ALLOW_THREADS
            written = writev(link->fd, vector, n);
            Py_END_ALLOW_THREADS
        }
        error = errno;
    } while (written < 0 && error == EINTR);
    while (n)
        PyBuffer_Release(&views[--n]);
    if (written == total) {
        link->bytes_sent = total;
        return 1;
    }
    if (written < 0 && error != EAGAIN && error != EWOULDBLOCK)
        return DO((PyObject *)link, "close", NULL) ? -1 : 0;
    return write_later(link, pieces, written < 0 ? 0 : written);
}

/* What C relies on: a subclass of Lane has a Link and a Meter. */
static int is_ready(Lane *lane) {
    if (lane->link && PyObject_TypeCheck(lane->link, &LinkType) && lane->meter &&
        PyObject_TypeCheck(lane->meter, &MeterType) && lane->loop)
        return 1;
    PyErr_SetString(PyExc_AttributeError, "a Lane begins with a link, a meter and a loop");
    return 0;
}

static int begin_slowly(Lane *lane) {
    return DO((PyObject *)lane, "begin_slowly", NULL);
}

static int lane_begin(Lane *lane, ns_t due_ns, int warmup) {
    lane->due_ns = due_ns;
    lane->warmup = (char)warmup;
    if (!is_ready(lane))
        return -1;
    if (!lane->is_plain || !((Link *)lane->link)->usable)
        return begin_slowly(lane);
    Link *link = (Link *)Py_NewRef(lane->link);
    Meter *meter = (Meter *)Py_NewRef(lane->meter);
    PyObject *pieces = call(lane->render, &lane->drawn, 1);
    int sent = -1, failed = -1;
    if (pieces != NULL)
        sent = link->replaced ? truth(PyObject_CallMethod((PyObject *)link, "send", "OL", pieces, lane->timeout_ns))
                              : link_send(link, pieces, lane->timeout_ns);
    if (sent == 0)
        failed = begin_slowly(lane);
    if (sent > 0) {
        lane->sent_ns = link->sent_ns;
        failed = meter->replaced
                     ? DO((PyObject *)meter, "sent", "LO", link->sent_ns, warmup ? Py_True : Py_False)
                     : meter_sent(meter, link->sent_ns, warmup);
    }
    Py_XDECREF(pieces);
    Py_DECREF(link);
    Py_DECREF(meter);
    return failed;
}

/* Call the loop with the lane and, if there is one, the reason. */
static int tell_loop(Lane *lane, const char *method, PyObject *reason) {
    return is_ready(lane) ? DO(lane->loop, method, reason ? "OO" : "O", lane, reason) : -1;
}

static int draw_again(Lane *lane) {
    PyObject *type, *reason, *trace, *drawn = call(lane->draw, NULL, 0);
    if (drawn != NULL) {
        Py_XSETREF(lane->drawn, drawn);
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Fetch(&type, &reason, &trace);
    PyErr_NormalizeException(&type, &reason, &trace);
    if (trace != NULL)
        PyException_SetTraceback(reason, trace);
    int failed = tell_loop(lane, "not_drawn", reason);
    Py_XDECREF(type);
    Py_XDECREF(reason);
    Py_XDECREF(trace);
    return failed;
}

/* Count a reply and go on; the caller holds the lane's link and meter. */
static int judged(Lane *lane, Link *link, Meter *meter, PyObject *status, PyObject *body, ns_t received_ns,
                  PyObject *verdict) {
    PyObject *phase = lane->warmup ? Py_True : Py_False;
    if (read_worth(&meter->worth, verdict))
        return -1;
    if (!meter->worth.is_good || !lane->is_plain)
        return DO((PyObject *)meter, "exchanged", "OOLO", link, status, received_ns, phase) ||
               DO((PyObject *)lane, "on_verdict", "OOLO", status, body, received_ns, verdict) ? -1 : 0;
    int failed = meter->replaced
                     ? DO((PyObject *)meter, "good", "LLLLOOOO", lane->due_ns, lane->free_ns, lane->sent_ns, received_ns,
                          phase, verdict, link, status)
                     : meter_good(meter, lane->due_ns, lane->free_ns, lane->sent_ns, received_ns, lane->warmup, verdict,
                                  link, status);
    if (failed)
        return -1;
    lane->free_ns = received_ns;
    if (!meter->repeats || received_ns >= meter->end_ns || meter->begun >= meter->most)
        return tell_loop(lane, "freed", NULL);
    int drawn = draw_again(lane);
    if (drawn < 1)
        return drawn;
    int warmup = received_ns < meter->warmup_end_ns || meter->begun < meter->warmup_requests;
    meter->begun++;
    return lane->replaced ? DO((PyObject *)lane, "begin", "iO", 0, warmup ? Py_True : Py_False) : lane_begin(lane, 0, warmup);
}

static int lane_on_reply(Lane *lane, PyObject *status, PyObject *body, ns_t received_ns) {
    PyObject *arguments[] = {status, body, lane->drawn}, *verdict = call(lane->judge, arguments, 3);
    if (verdict == NULL || !is_ready(lane)) {
        Py_XDECREF(verdict);
        return -1;
    }
    PyObject *link = Py_NewRef(lane->link), *meter = Py_NewRef(lane->meter);
    int failed = judged(lane, (Link *)link, (Meter *)meter, status, body, received_ns, verdict);
    Py_DECREF(link);
    Py_DECREF(meter);
    Py_DECREF(verdict);
    return failed;
}

static const char is_token[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
    ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};

static int is_called(const char *name, Py_ssize_t length, const char *wanted) {
    return length == (Py_ssize_t)strlen(wanted) && strncasecmp(name, wanted, length) == 0;
}

/* Behind the end of a line of text; NULL without one. */
static const char *after_line(const char *at, const char *end) {
    while (at < end && ((unsigned char)*at >= ' ' || *at == '\t') && *at != 127)
        at++;
    return end - at < 2 || at[0] != '\r' || at[1] != '\n' ? NULL : at + 2;
}

/* Where the body of a whole, plain reply begins: HTTP/1.1 20x, one Content-Length that fits, on a connection that
   stays, and not gzip. NULL for everything else, which is not looked at any further here (RFC 9112, 9110 5.5). */
static const char *plain_body(const char *at, Py_ssize_t length) {
    const char *end = at + length;
    Py_ssize_t content = -1;
    if (length < 17 || memcmp(at, "HTTP/1.1 20", 11) || at[11] < '0' || at[11] > '9' ||
        (at[12] != ' ' && at[12] != '\r'))
        return NULL;
    if (at[11] == '4' || at[11] == '5') /* no content, reset content */
        return NULL;
    if ((at = after_line(at + 12, end)) == NULL)
        return NULL;
    while (end - at > 1 && *at != '\r') {
        const char *name = at;
        while (at < end && is_token[(unsigned char)*at])
            at++;
        Py_ssize_t name_length = at - name;
        if (at == end || *at != ':' || !name_length)
            return NULL;
        for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
            ;
        if (is_called(name, name_length, "content-length")) {
            if (content >= 0 || at == end || *at < '0' || *at > '9')
                return NULL;
            for (content = 0; at < end && *at >= '0' && *at <= '9' && content < length; at++)
                content = 10 * content + *at - '0';
            if (at == end || *at != '\r')
                return NULL;
        } else if (is_called(name, name_length, "connection")) {
            if (end - at < 11 || !is_called(at, 10, "keep-alive") || at[10] != '\r')
                return NULL;
        } else if (is_called(name, name_length, "proxy-connection") || is_called(name, name_length, "transfer-encoding") ||
                   is_called(name, name_length, "upgrade"))
            return NULL;
        if ((at = after_line(at, end)) == NULL)
            return NULL;
    }
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n' || end - at - 2 != content || (content && at[2] == 0x1f))
        return NULL;
    return at + 2;
}

static int link_handle(Link *link, PyObject *data, ns_t read_ns) {
    static PyObject *statuses[10];
    const char *body = NULL;
    if (link->owner == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a Link begins with an owner");
        return -1;
    }
    link->received_ns = read_ns;
    Py_ssize_t length = PyObject_Size(data);
    if (length < 0)
        return -1;
    link->bytes_received += length;
    if (link->in_flight && !link->partial && read_ns >= link->sent_ns && PyBytes_CheckExact(data))
        body = plain_body(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
    if (body == NULL)
        return DO((PyObject *)link, "parse", "OL", data, read_ns);
    int digit = PyBytes_AS_STRING(data)[11] - '0';
    PyObject *ok = statuses[digit] ? statuses[digit] : (statuses[digit] = PyLong_FromLong(200 + digit));
    if (ok == NULL)
        return -1;
    PyObject *text = PyBytes_FromStringAndSize(body, PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data) - body);
    if (text == NULL)
        return -1;
    link->in_flight = 0;
    PyObject *owner = Py_NewRef(link->owner);
    int is_ours = PyObject_TypeCheck(owner, &LaneType) && !((Lane *)owner)->replaced;
    int failed = is_ours ? lane_on_reply((Lane *)owner, ok, text, read_ns) : DO(owner, "on_reply", "OOL", ok, text, read_ns);
    Py_DECREF(owner);
    Py_DECREF(text);
    return failed;
}

/* Inbox */

static int Inbox_clear(Inbox *inbox) {
    while (inbox->count > inbox->handled) {
        Read read = inbox->reads[--inbox->count];
        Py_DECREF(read.link);
        Py_DECREF(read.data);
    }
    return 0;
}

static void Inbox_dealloc(Inbox *inbox) {
    PyObject_GC_UnTrack(inbox);
    Inbox_clear(inbox);
    PyMem_Free(inbox->reads);
    Py_TYPE(inbox)->tp_free(inbox);
}

static int Inbox_traverse(Inbox *inbox, visitproc visit, void *arg) {
    for (Py_ssize_t i = inbox->handled; i < inbox->count; i++) {
        Py_VISIT(inbox->reads[i].link);
        Py_VISIT(inbox->reads[i].data);
    }
    return 0;
}

/* What is read meanwhile, and after an error the rest, is left to another turn. */
static PyObject *Inbox_handle(Inbox *inbox, PyObject *none) {
    Py_ssize_t turn = inbox->count;
    int failed = 0;
    inbox->scheduled = 0;
    while (inbox->handled < turn && inbox->handled < inbox->count && !failed) {
        Read read = inbox->reads[inbox->handled++];
        failed = read.link->replaced ? DO((PyObject *)read.link, "handle", "OL", read.data, read.read_ns)
                                     : link_handle(read.link, read.data, read.read_ns);
        Py_DECREF(read.link);
        Py_DECREF(read.data);
    }
    if ((inbox->count -= inbox->handled))
        memmove(inbox->reads, inbox->reads + inbox->handled, inbox->count * sizeof *inbox->reads);
    inbox->handled = 0;
    if (!failed)
        Py_RETURN_NONE;
    if (inbox->count && !inbox->scheduled) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (schedule(inbox))
            PyErr_Clear();
        PyErr_Restore(type, value, trace);
    }
    return NULL;
}

static PyMethodDef Inbox_methods[] = {
    {"handle", (PyCFunction)Inbox_handle, METH_NOARGS, NULL}, {NULL}};

/* Link */

static int Link_init(Link *link, PyObject *args, PyObject *kwargs) {
    PyObject *owner, *inbox;
    if (!PyArg_ParseTuple(args, "OO!", &owner, &InboxType, &inbox))
        return -1;
    Py_XSETREF(link->owner, Py_NewRef(owner));
    Py_XSETREF(link->inbox, Py_NewRef(inbox));
    link->fd = -1;
    return 0;
}

static int Link_traverse(Link *link, visitproc visit, void *arg) {
    Py_VISIT(link->owner);
    Py_VISIT(link->inbox);
    return 0;
}

static int Link_clear(Link *link) {
    Py_CLEAR(link->owner);
    Py_CLEAR(link->inbox);
    return 0;
}

static void Link_dealloc(Link *link) {
    PyObject_GC_UnTrack(link);
    Link_clear(link);
    Py_TYPE(link)->tp_free(link);
}

static PyObject *Link_handle(Link *link, PyObject *args) {
    PyObject *data;
    ns_t read_ns;
    if (!PyArg_ParseTuple(args, "OL", &data, &read_ns) || link_handle(link, data, read_ns))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *Link_send(Link *link, PyObject *args) {
    PyObject *pieces;
    ns_t timeout_ns;
    int sent;
    if (!PyArg_ParseTuple(args, "OL", &pieces, &timeout_ns) || (sent = link_send(link, pieces, timeout_ns)) < 0)
        return NULL;
    return PyBool_FromLong(sent);
}

static PyMethodDef Link_methods[] = {
    {"data_received", (PyCFunction)Link_data_received, METH_O, NULL},
    {"handle", (PyCFunction)Link_handle, METH_VARARGS, NULL},
    {"send", (PyCFunction)Link_send, METH_VARARGS, NULL},
    {NULL}};
static PyMemberDef Link_members[] = {
    {"owner", T_OBJECT_EX, AT(Link, owner)},
    {"fd", T_INT, AT(Link, fd)},
    {"usable", T_BOOL, AT(Link, usable)},
    {"in_flight", T_BOOL, AT(Link, in_flight)},
    {"partial", T_BOOL, AT(Link, partial)},
    {"sent_ns", T_LONGLONG, AT(Link, sent_ns)},
    {"received_ns", T_LONGLONG, AT(Link, received_ns)},
    {"deadline_ns", T_LONGLONG, AT(Link, deadline_ns)},
    {"bytes_sent", T_LONGLONG, AT(Link, bytes_sent)},
    {"bytes_received", T_LONGLONG, AT(Link, bytes_received)},
    {NULL}};

/* Lane */

static int Lane_traverse(Lane *lane, visitproc visit, void *arg) {
    Py_VISIT(lane->meter);
    Py_VISIT(lane->link);
    Py_VISIT(lane->draw);
    Py_VISIT(lane->render);
    Py_VISIT(lane->judge);
    Py_VISIT(lane->drawn);
    Py_VISIT(lane->loop);
    return 0;
}

static int Lane_clear(Lane *lane) {
    Py_CLEAR(lane->meter);
    Py_CLEAR(lane->link);
    Py_CLEAR(lane->draw);
    Py_CLEAR(lane->render);
    Py_CLEAR(lane->judge);
    Py_CLEAR(lane->drawn);
    Py_CLEAR(lane->loop);
    return 0;
}

static void Lane_dealloc(Lane *lane) {
    PyObject_GC_UnTrack(lane);
    Lane_clear(lane);
    Py_TYPE(lane)->tp_free(lane);
}

static PyObject *Lane_begin(Lane *lane, PyObject *args) {
    ns_t due_ns;
    int warmup;
    if (!PyArg_ParseTuple(args, "Lp", &due_ns, &warmup) || lane_begin(lane, due_ns, warmup))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *Lane_on_reply(Lane *lane, PyObject *args) {
    PyObject *status, *body;
    ns_t received_ns;
    if (!PyArg_ParseTuple(args, "OOL", &status, &body, &received_ns) ||
        lane_on_reply(lane, status, body, received_ns))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef Lane_methods[] = {
    {"begin", (PyCFunction)Lane_begin, METH_VARARGS, NULL},
    {"on_reply", (PyCFunction)Lane_on_reply, METH_VARARGS, NULL},
    {NULL}};
static PyMemberDef Lane_members[] = {
    {"meter", T_OBJECT_EX, AT(Lane, meter)},
    {"link", T_OBJECT_EX, AT(Lane, link)},
    {"draw", T_OBJECT_EX, AT(Lane, draw)},
    {"render", T_OBJECT_EX, AT(Lane, render)},
    {"judge", T_OBJECT_EX, AT(Lane, judge)},
    {"drawn", T_OBJECT_EX, AT(Lane, drawn)},
    {"loop", T_OBJECT_EX, AT(Lane, loop)},
    {"is_plain", T_BOOL, AT(Lane, is_plain)},
    {"warmup", T_BOOL, AT(Lane, warmup)},
    {"timeout_ns", T_LONGLONG, AT(Lane, timeout_ns)},
    {"free_ns", T_LONGLONG, AT(Lane, free_ns)},
    {"due_ns", T_LONGLONG, AT(Lane, due_ns)},
    {"sent_ns", T_LONGLONG, AT(Lane, sent_ns)},
    {NULL}};

/* A new instance, which knows whether its type has methods of its own. */
#define NEW(Name)                                                                                                      \
    static PyObject *Name##_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {                                \
        int replaced = replaces(type, &Name##Type);                                                                    \
        Name *made = replaced < 0 ? NULL : (Name *)type->tp_alloc(type, 0);                                            \
        if (made != NULL)                                                                                              \
            made->replaced = (char)replaced;                                                                           \
        return (PyObject *)made;                                                                                       \
    }
NEW(Meter)
NEW(Link)
NEW(Lane)

#define TYPE(Name)                                                                                                     \
    static PyTypeObject Name##Type = {                                                                                 \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "esbench.load._hot." #Name,                                           \
        .tp_basicsize = sizeof(Name),                                                                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,                                     \
        .tp_dealloc = (destructor)Name##_dealloc,                                                                      \
        .tp_traverse = (traverseproc)Name##_traverse,                                                                  \
        .tp_methods = Name##_methods,
TYPE(Meter).tp_new = Meter_new, .tp_clear = (inquiry)Meter_clear, .tp_init = (initproc)Meter_init, .tp_members = Meter_members};
TYPE(Inbox).tp_new = PyType_GenericNew, .tp_clear = (inquiry)Inbox_clear};
TYPE(Link).tp_new = Link_new, .tp_clear = (inquiry)Link_clear, .tp_init = (initproc)Link_init, .tp_members = Link_members};
TYPE(Lane).tp_new = Lane_new, .tp_clear = (inquiry)Lane_clear, .tp_members = Lane_members};

static PyObject *imported(const char *module_name, const char *name) {
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *value = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return value;
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_hot", NULL, -1};

PyMODINIT_FUNC PyInit__hot(void) {
    get_running_loop = imported("asyncio", "get_running_loop");
    PyObject *module = PyModule_Create(&definition);
    if (!get_running_loop || !module || PyModule_AddType(module, &MeterType) ||
        PyModule_AddType(module, &InboxType) || PyModule_AddType(module, &LinkType) || PyModule_AddType(module, &LaneType))
        return NULL;
    return module;
}
