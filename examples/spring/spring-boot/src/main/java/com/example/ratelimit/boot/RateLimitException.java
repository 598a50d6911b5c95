package com.example.ratelimit.boot;

import java.util.Map;
import org.springframework.http.HttpStatus;
import org.springframework.http.ProblemDetail;
import org.springframework.web.ErrorResponseException;

/** 429 or 503: Spring MVC makes the response of it, with a body of application/problem+json. */
public class RateLimitException extends ErrorResponseException {

    RateLimitException(HttpStatus status, String message, Map<String, String> headers) {
        super(status, ProblemDetail.forStatusAndDetail(status, message), null);
        getHeaders().setAll(headers);
    }

    /** Nothing is broken, and during an attack there are many. */
    @Override
    public Throwable fillInStackTrace() {
        return this;
    }
}
