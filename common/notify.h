/* What systemd wants to hear of a service (sd_notify's protocol, without its library). Any thread.
 */
#ifndef BATON_COMMON_NOTIFY_H
#define BATON_COMMON_NOTIFY_H

/*
 * Sends one datagram such as "READY=1", "STOPPING=1" or "STATUS=..." to $NOTIFY_SOCKET. Nothing
 * happens when the variable is not set (not under systemd) or the datagram can not be sent: a
 * service that runs is worth more than the message.
 */
void notify_send(const char *state);

#endif
